package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"cuda-runpath/pkg/remedy"
)

// The tools in the order in which they run: those that edit run paths, in one walk where their flags allow it; then
// what runs by itself, the last two to check what the others leave.
var (
	editors = []string{"stubReplace", "autoAddDriverRunpath", "addCudaCompatRunpath"}
	others  = []string{"thinCuda", "noRunpathAmbiguity", "cudaCapabilitiesCheck"}
)

// notes stands for the walk that writes resolution notes and nothing else.
const notes = "resolution notes"

// Tools returns them, in their order.
func Tools() []string { return slices.Concat(editors, others) }

// nixpkgsFunctions are what nixpkgs' hooks run on each file, and the tool that stands for each.
var nixpkgsFunctions = map[string]string{
	"removeStubsFromRunpath": "stubReplace",
	"addDriverRunpath":       "autoAddDriverRunpath",
	"addCudaCompatRunpath":   "addCudaCompatRunpath",
}

// switches are the variables that switch a tool off.
func switches(tool string) []string {
	names := []string{"dont" + strings.ToUpper(tool[:1]) + tool[1:]}
	if tool == "autoAddDriverRunpath" { // nixpkgs' names
		names = append(names, "dontUseAutoAddDriverRunpath", "dontUseAutoAddOpenGLRunpath")
	}
	return names
}

// build is a build at one of its moments.
type build struct {
	*shell
	*answers
	log     io.Writer
	context context.Context // of the walks that run in this process
	// start runs a program with variables beside those of the environment, and returns its exit status.
	start func(stdout, stderr io.Writer, variables []string, program string, args ...string) int
}

// errReported is a failure of which the log tells already.
var errReported = errors.New("reported")

// exitStatus is the failure of a tool, of which the log tells already.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// start runs a program.
func start(stdout, stderr io.Writer, variables []string, program string, args ...string) int {
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.Env = append(os.Environ(), variables...)
	err := cmd.Run()
	if err == nil {
		return 0
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode()
	}
	fmt.Fprintln(stderr, remedy.Line(err.Error()))
	return 1
}

// binary is the path of a tool's program, beside the one that the shim calls.
func (b *build) binary(tool string) string {
	return filepath.Join(filepath.Dir(b.text("cudaRunpathProgram")), tool)
}

// paths are the outputs that are there. One that is a link to another store path is not ours to edit.
func (b *build) paths() (paths []string) {
	for _, name := range b.names {
		if st, err := os.Lstat(b.outputs[name]); err == nil && st.Mode()&os.ModeSymlink == 0 {
			paths = append(paths, b.outputs[name])
		}
	}
	return paths
}

// asked reports whether a hook asks for a tool: by its own name, or by nixpkgs' entry that is still there.
func (b *build) asked(tool string) bool {
	if b.brings("tool", tool) {
		return true
	}
	for function, stands := range nixpkgsFunctions {
		if stands == tool && b.brings("entry", function) {
			return true
		}
	}
	switch tool {
	case "thinCuda":
		return b.brings("settings", "") && (b.isTrue("cudaThin") || b.isTrue("cudaBlankOptions"))
	case "cudaCapabilitiesCheck":
		return b.brings("settings", "") && b.isTrue("cudaRunpathCheckCapabilities")
	}
	return false
}

// switchedOff returns the variable that switches a tool off, "" for none.
func (b *build) switchedOff(tool string) string {
	i := slices.IndexFunc(switches(tool), b.isTrue)
	if i < 0 {
		return ""
	}
	return switches(tool)[i]
}

// editing returns the tools that edit run paths in this build, in their order. say says why others do not, of nixpkgs'
// entries too, which the package has taken away.
func (b *build) editing(say func(string)) ([]string, error) {
	for _, function := range b.brought("stands-for") {
		if !b.brings("entry", function) {
			say(nixpkgsFunctions[function] + ": switched off: 'autoFixElfFiles " + function + "' is no longer in postFixupHooks")
		}
	}
	for _, off := range b.brought("off") {
		tool, by, _ := strings.Cut(off, " ")
		say(tool + ": switched off by " + by)
	}
	var tools []string
	for _, tool := range editors {
		if !b.asked(tool) {
			continue
		}
		if by := b.switchedOff(tool); by != "" {
			say(tool + ": switched off by " + by)
			continue
		}
		if tool == "addCudaCompatRunpath" {
			directory, err := b.compat()
			if err != nil {
				return nil, err
			}
			if directory == "" {
				say(b.noCompat())
				continue
			}
		}
		tools = append(tools, tool)
	}
	return tools, nil
}

func (b *build) noCompat() string {
	if b.isSet("cudaCompat") {
		return "addCudaCompatRunpath: cudaCompat is empty, nothing to add"
	}
	return "addCudaCompatRunpath: there is no compat package for this platform, nothing to add"
}

// only returns the value of a KEY where hooks brought one, "" where none did.
func (b *build) only(key, what, setting string) (string, error) {
	values := b.given(key)
	if len(values) > 1 {
		return "", fmt.Errorf("%s: %s; say which one counts by setting %s", what, strings.Join(values, " "), setting)
	}
	return strings.Join(values, ""), nil
}

// compat returns the compat directory: the setting cudaCompat where it is set at all, else the one that came with a
// hook; "" for none. Where nobody knows whether there is one, that is an error for addCudaCompatRunpath.
func (b *build) compat() (string, error) {
	if b.isSet("cudaCompat") {
		return b.text("cudaCompat"), nil
	}
	directory, err := b.only("compat", "addCudaCompatRunpath came with different compat directories", "cudaCompat")
	if err == nil && b.forStubs() {
		directory, err = b.only("stubs-compat", "removeStubsFromRunpathHook came with different compat directories",
			"cudaCompat")
	}
	if unknown := b.given("compat-unknown"); err == nil && directory == "" && len(unknown) > 0 {
		return "", fmt.Errorf("addCudaCompatRunpath: %s; set cudaCompat to its directory, or to nothing for none", unknown[0])
	}
	return directory, err
}

// forStubs reports whether a hook brought a compat directory for the places of stubs alone.
func (b *build) forStubs() bool {
	return len(b.given("stubs-compat")) > 0 && len(b.brought("compat")) == 0 && len(b.brought("compat-unknown")) == 0
}

// link returns the driver link without /lib that the tools are told of, "" for the one that they choose by themselves.
func (b *build) link() (string, error) {
	link := strings.TrimRight(b.text("driverLink"), "/")
	if link == "" {
		var err error
		if link, err = b.only("link", "the hooks came with different driver links", "driverLink"); err != nil {
			return "", err
		}
	}
	if without, ends := strings.CutSuffix(link, "/lib"); ends {
		return "", fmt.Errorf("driverLink is '%s', which must be the directory without its last part, lib: '%s'",
			link, without)
	}
	return link, nil
}

// places are the arguments that say where the driver's and the compat package's libraries are: all tools get the same.
func (b *build) places() (args []string, err error) {
	link, err := b.link()
	if err != nil {
		return nil, err
	}
	if link != "" {
		args = append(args, "--driver-link", link+"/lib")
	}
	directory, err := b.compat()
	if err != nil && (b.asked("addCudaCompatRunpath") && b.switchedOff("addCudaCompatRunpath") == "" ||
		len(b.given("compat")) > 1) {
		return nil, err
	}
	if directory != "" {
		args = append(args, "--compat", directory)
	}
	return args, nil
}

// errNoGPUs says that nobody named GPUs, and what to write.
func errNoGPUs(setting string) error {
	return errors.New(setting + ": for which GPUs? Add a line to the package, such as" +
		" cudaCapabilities = cudaPackages.flags.cudaCapabilities; or cudaCapabilities = [ \"8.0\" \"9.0+PTX\" ]; ([ ] " +
		"means none)," +
		" or to nativeBuildInputs the hook that has the list of its CUDA set: cudaPackages.thinCuda, " +
		"cudaPackages.cudaCapabilitiesCheck")
}

// gpus returns the list of GPUs: the setting cudaCapabilities where it is set at all, else what came with a hook; ""
// for none. setting is what asks for it.
func (b *build) gpus(setting string) (string, error) {
	if b.isSet("cudaCapabilities") {
		words, err := b.list("cudaCapabilities")
		return strings.Join(words, " "), err
	}
	if len(b.brought("gpus")) == 0 {
		return "", errNoGPUs(setting)
	}
	return b.only("gpus", "the hooks came with different lists of GPUs", "cudaCapabilities")
}

// common are the arguments of every tool.
func (b *build) common() []string {
	jobs := b.text("NIX_BUILD_CORES")
	if jobs == "" {
		jobs = "1"
	}
	args := []string{"--jobs", jobs}
	if !b.isTrue("cudaRunpathStrict") { // real packages hold broken ELF files on purpose, as test data
		args = append(args, "--malformed", "warn")
	}
	return args
}

// flags are a tool's own, of a setting.
func (b *build) flags(tool string) ([]string, error) { return b.list(tool+"Flags", tool+"FlagsArray") }

// edits returns the arguments with which tools edit run paths.
func (b *build) edits(tools ...string) ([]string, error) {
	places, err := b.places()
	if err != nil {
		return nil, err
	}
	// a package says --force-rpath, which comes before it
	args := slices.Concat(b.common(), []string{"--force-runpath", inPlace}, places)
	if position := b.text("driverLinkPosition"); position != "" {
		args = append(args, "--position", position)
	}
	if b.isTrue("clearExecutableStacks") {
		args = append(args, "--clear-execstack")
	}
	if b.wantsNotes() {
		args = append(args, resolutionNote)
	}
	for _, tool := range tools {
		if tool == "stubReplace" && b.forStubs() && slices.Contains(places, "--compat") {
			args = append(args, "--compat-for-stubs")
		}
		flags, err := b.flags(tool)
		if err != nil {
			return nil, err
		}
		args = append(args, flags...)
	}
	return args, nil
}

// checks returns the arguments of a tool that runs by itself; none where it has nothing to do, which say says.
func (b *build) checks(tool string, say func(string)) ([]string, error) {
	args := b.common()
	if tool == "noRunpathAmbiguity" {
		places, err := b.places()
		if err != nil {
			return nil, err
		}
		args = append(append(args, places...), "--nix")
		tools, err := b.editing(func(why string) { args = append(args, "--hook", why) })
		if err != nil {
			return nil, err
		}
		for _, tool := range tools {
			args = append(args, "--hook", tool)
		}
		names, err := b.list("noRunpathAmbiguityIgnore")
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			args = append(args, "--ignore", name)
		}
	} else {
		setting := "cudaRunpathCheckCapabilities"
		if tool == "thinCuda" {
			setting = "cudaThin"
		}
		blank := tool == "thinCuda" && b.isTrue("cudaBlankOptions")
		if !blank || b.isTrue("cudaThin") || b.brings("tool", "thinCuda") {
			list, err := b.gpus(setting)
			if err != nil {
				return nil, err
			}
			if list == "" {
				say(tool + ": neither the setting cudaCapabilities nor the CUDA set names GPUs: nothing to do for them")
				if !blank {
					return nil, nil
				}
			} else {
				args = append(args, "--for", list)
			}
		}
		args = append(args, "--nix")
		if tool == "thinCuda" {
			flags, err := b.flags(tool)
			if err != nil {
				return nil, err
			}
			switch {
			case b.isTrue("cudaThinCut"):
				args = append(args, "--cut")
			case !slices.Contains(flags, "--cut"):
				args = append(args, "--keep-length")
			}
		}
		if blank {
			args = append(args, "--blank-options")
		}
	}
	flags, err := b.flags(tool)
	return append(args, flags...), err
}

// wantsNotes reports whether files get resolution notes: where the package asks for them, and with stdenv's hook, each
// unless that hook's own switches say no.
func (b *build) wantsNotes() bool {
	switch {
	case b.isTrue("dontGenerateLDCache"):
		return false
	case b.isTrue("cudaResolutionNote"):
		return true
	case !b.brings("notes", ""):
		return false
	}
	return !b.isTrue("dontPatchELF") || !b.isTrue("dontAutoPatchelf") && b.isSet("function:autoPatchelf")
}

// inPlace is the flag by which files are written into: a build that is killed is thrown away.
const inPlace = "--in-place"

// resolutionNote is the flag by which files get a resolution note.
const resolutionNote = "--resolution-note"

// walk is one process over the outputs.
type walk struct {
	tools []string
	args  []string
}

// walks returns those of the tools that edit: one for all where none has flags of its own, which are for it alone.
func (b *build) walks(tools []string) ([]walk, error) {
	alone := false
	for _, tool := range tools {
		flags, err := b.flags(tool)
		if err != nil {
			return nil, err
		}
		alone = alone || len(flags) > 0
	}
	together := [][]string{tools}
	if alone {
		together = slices.Collect(slices.Chunk(tools, 1))
	}
	var walks []walk
	for _, some := range together {
		if len(some) == 0 {
			continue
		}
		args, err := b.edits(some...)
		if err != nil {
			return nil, err
		}
		walks = append(walks, walk{some, args})
	}
	return walks, nil
}

// shared are the flags by which a tool says what the whole run path is to be, and the setting that all hear.
var shared = []struct{ flag, setting string }{
	{"--force-rpath", ""}, {"--force-runpath", ""}, {"--keep-empty", ""},
	{"--position", "driverLinkPosition"}, {"--driver-link", "driverLink"}, {"--compat", "cudaCompat"},
}

// disagreeing returns a flag that one of the walks has and another has not, "" for none, and what to write.
func disagreeing(walks []walk) (flag, remedy string) {
	for _, one := range shared {
		var values []string
		for _, w := range walks {
			value := ""
			for i, arg := range w.args {
				if arg == one.flag {
					value = arg
					if one.setting != "" && i+1 < len(w.args) {
						value = w.args[i+1]
					}
				} else if name, equals, ok := strings.Cut(arg, "="); ok && name == one.flag {
					value = equals
				}
			}
			if !slices.Contains(values, value) {
				values = append(values, value)
			}
		}
		if len(values) > 1 && one.setting != "" {
			return one.flag, "set " + one.setting + " in its place"
		} else if len(values) > 1 {
			return one.flag, "give it to each of them"
		}
	}
	return "", ""
}

// command is the command line of a walk over paths, with more arguments in front.
func (b *build) command(w walk, paths []string, more ...string) []string {
	argv := []string{b.binary(w.tools[0])}
	switch {
	case w.tools[0] == notes:
		argv = []string{b.binary("runpath"), "cache", "write"}
	case w.tools[0] == "thinCuda":
		argv = []string{b.binary("runpath"), "thin"}
	case w.tools[0] == "cudaCapabilitiesCheck":
		argv = []string{b.binary("runpath"), "gpu"}
	case len(w.tools) > 1 || slices.Contains(w.args, resolutionNote): // which is normalize's
		argv = []string{b.binary("runpath"), "normalize"}
		for _, tool := range w.tools {
			argv = append(argv, "--tool", tool)
		}
	}
	return slices.Concat(argv, more, w.args, []string{"--"}, paths)
}

// run runs a walk over the outputs.
func (b *build) run(w walk, more ...string) error {
	names, paths := strings.Join(w.tools, ", "), b.paths()
	if len(paths) == 0 {
		b.note(names + ": no outputs to look at")
		return nil
	}
	b.note(names + ": " + strings.Join(paths, " "))
	argv := b.command(w, paths, more...)
	// What a tool finds is for the log.
	return b.tool(names, nil, argv)
}

// tool runs a command line with variables beside those of the environment. Where it fails, what repeats it is said.
func (b *build) tool(names string, variables, argv []string) error {
	status := b.start(b.log, b.log, variables, argv[0], argv[1:]...)
	if status == 0 {
		return nil
	}
	if len(variables) > 0 {
		argv = slices.Concat([]string{"env"}, variables, argv)
	}
	b.fail(fmt.Sprintf("%s failed with exit status %d; what it said is above. The same again: %s", names, status,
		remedy.Quote(argv...)))
	return exitStatus(status)
}
