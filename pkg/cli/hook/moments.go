package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"cuda-runpath/pkg/plainfile"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/runpath"
)

// wantsStubs reports whether the check phases are to get stubs.
func (b *build) wantsStubs() bool {
	asked := b.asked("stubReplace") || b.brings("stands-for", "removeStubsFromRunpath")
	return b.isTrue("stubReplaceForChecks") && asked && b.switchedOff("stubReplace") == ""
}

// before is the moment before fixup, whose shrink step drops stub directories (they hold libcuda.so, not libcuda.so.1)
// and with them the knowledge of where the stubs are.
func (b *build) before() error {
	if !b.wantsStubs() || b.text("cudaRunpathStubs") != "" {
		return nil
	}
	directory, err := b.stubs()
	if err != nil {
		return err
	}
	args, err := b.edits("stubReplace")
	if err != nil {
		return err
	}
	return b.run(walk{[]string{"stubReplace"}, append(args, "--offer", directory)}, "--dry-run")
}

// stubs makes the directory of the stubs, tells the shim of it and returns it.
func (b *build) stubs() (string, error) {
	directory := b.text("cudaRunpathStubs")
	if directory != "" {
		return directory, nil
	}
	var err error
	if top := b.top(); top != "" {
		directory = filepath.Join(top, "cuda-runpath-stubs")
		err = os.MkdirAll(directory, 0o755)
	} else { // perhaps in /tmp: a name that nobody could foresee
		directory, err = os.MkdirTemp(b.text("TMPDIR"), "cuda-runpath-stubs.")
	}
	if err != nil {
		return "", err
	}
	b.say("stubs " + directory)
	return directory, nil
}

// fixup is the moment at which the tools run: the end of postFixup.
func (b *build) fixup() error {
	if err := b.sayPhase(); err != nil {
		return err
	}
	if err := b.mark(begun); err != nil {
		return err
	}
	tools, err := b.editing(b.note)
	if err != nil {
		return err
	}
	if err := b.patchLate(); err != nil {
		return err
	}
	walks, err := b.walks(tools)
	if err != nil {
		return err
	}
	if flag, remedy := disagreeing(walks); flag != "" {
		b.note(fmt.Sprintf("warning: %s is in the flags of only one tool, and the tool that runs last decides; %s",
			flag, remedy))
	}
	late := b.wantsStubs() && b.text("cudaRunpathStubs") == ""
	for i, w := range walks {
		if late && slices.Contains(w.tools, "stubReplace") {
			directory, err := b.stubs()
			if err != nil {
				return err
			}
			walks[i].args = append(w.args, "--offer", directory)
			b.settings["cudaRunpathStubs"] = setting{values: []string{directory}}
		}
		if err := b.run(walks[i]); err != nil {
			return err
		}
	}
	if len(walks) == 0 {
		if err := b.noteAlone(); err != nil {
			return err
		}
	}
	if err := b.noteOpened(); err != nil {
		return err
	}
	if b.isTrue("cudaThinCut") && !b.asked("thinCuda") {
		b.note("warning: cudaThinCut says how cudaThin thins, and that is not set")
	}
	for _, tool := range others {
		if !b.asked(tool) {
			continue
		}
		if by := b.switchedOff(tool); by != "" {
			b.note(tool + ": switched off by " + by)
			continue
		}
		args, err := b.checks(tool, b.note)
		if err != nil {
			return err
		}
		if args == nil {
			continue
		}
		if err := b.run(walk{[]string{tool}, args}); err != nil {
			return err
		}
	}
	if err := b.offer(late); err != nil {
		return err
	}
	return b.mark(fixed)
}

// noteAlone has resolution notes written where no tool edits, in whose walk that would be.
func (b *build) noteAlone() error {
	if !b.brings("elf", "") {
		if b.brings("notes", "") {
			b.say("notes")
		}
		return nil
	}
	if !b.wantsNotes() {
		return nil
	}
	places, err := b.places()
	if err != nil {
		return err
	}
	return b.run(walk{tools: []string{notes}, args: slices.Concat(b.common(), []string{inPlace}, places)})
}

// oneRelease fails where the hooks are of several releases, or where what they brought is lost: nobody could say then
// what is to be done.
func (b *build) oneRelease() error {
	programs := b.brought("program")
	if len(programs) == 0 {
		return errors.New("what the hooks of this build brought is lost: a phase has set cudaRunpathGiven, or given " +
			"a function the name of one of the shell's builtins")
	}
	var releases, both []string
	for _, program := range programs {
		release, path, _ := strings.Cut(program, " ")
		if !slices.Contains(releases, release) {
			releases, both = append(releases, release), append(both, fmt.Sprintf("%s (%s)", release, path))
		}
	}
	if len(releases) > 1 {
		return fmt.Errorf("this build mixes hooks of different releases: %s. Take all of them from one release",
			strings.Join(both, ", "))
	}
	return nil
}

// sayPhase says that postPatchelfPhase, which nixpkgs' torch lists in postPhases, does not run by its name alone.
func (b *build) sayPhase() error {
	listed, err := b.list("phases", "postPhases")
	if err == nil && b.isTrue("postPatchelfPhase") && !slices.Contains(listed, "postPatchelfPhase") {
		b.note("warning: postPatchelfPhase is set and does not run: no list of phases has it; " +
			"postPhases = [ \"postPatchelfPhase\" ] would run it")
	}
	return err
}

// noteOpened says, with cudaOpened, what autoPatchelf would put in for CUDA's libraries that files open by name and
// that inputs have: the tools leave entries that are not theirs alone.
func (b *build) noteOpened() error {
	paths, libs := b.paths(), b.inputLibraries("--libs")
	if !b.isTrue("cudaOpened") || len(libs) == 0 || len(paths) == 0 {
		return nil
	}
	args, err := b.edits()
	if err != nil {
		return err
	}
	argv := slices.Concat([]string{"normalize", "--dry-run", "--opened"}, libs, args, []string{"--"}, paths)
	var said bytes.Buffer
	status := b.start(nil, &said, nil, b.binary("runpath"), argv...)
	text := strings.TrimRight(said.String(), "\n")
	if status != 0 {
		return errors.New("cudaOpened: " + text)
	}
	if text != "" {
		b.note("cudaOpened: left as they are; cudaRunpathAutoPatchelf = true, or autoPatchelfHook, would do this: " + text)
	}
	return nil
}

// inputLibraries are the library directories of the build's inputs, each behind a flag where there is one.
func (b *build) inputLibraries(flag string) (args []string) {
	for _, input := range b.settings["pkgsHostTarget"].values {
		if st, err := os.Stat(filepath.Join(input, "lib")); err == nil && st.IsDir() {
			if flag != "" {
				args = append(args, flag)
			}
			args = append(args, filepath.Join(input, "lib"))
		}
	}
	return args
}

// offer says whether the check phases get the stubs, and why not. late: nobody asked for them before fixup.
func (b *build) offer(late bool) error {
	directory := b.text("cudaRunpathStubs")
	if !b.wantsStubs() || directory == "" {
		return nil
	}
	link, err := b.link()
	if err != nil {
		return err
	}
	if link == "" {
		link = "/run/opengl-driver"
	}
	if _, err := os.Stat(link + "/lib/libcuda.so.1"); err == nil {
		b.note("stubReplaceForChecks: the driver is in " + link + "/lib, no stubs needed")
		return nil
	}
	found, err := os.ReadDir(directory)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		why := "no run path named any at the beginning of fixup"
		if late {
			why = "it was set after the beginning of fixup, whose shrink step drops stub directories; set it as an attribute"
		}
		b.note("warning: stubReplaceForChecks: no stubs to offer: " + why)
		return nil
	}
	if _, err := os.Stat(filepath.Join(directory, "libcuda.so.1")); err == nil {
		// In a directory of its own: a program that opens libcuda.so is not to find one that users' hosts lack.
		for_ := filepath.Join(directory, "link")
		if err := os.MkdirAll(for_, 0o755); err != nil {
			return err
		}
		if err := os.Symlink("../libcuda.so.1", filepath.Join(for_, "libcuda.so")); err != nil &&
			!errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	b.say("offer")
	return nil
}

// What the mark says: the tools have begun, all is well.
const (
	begun = "begun\n"
	fixed = "fixed\n"
)

// markPath is the file that stands for the end of fixup: what has changed since has a ctime that is not before its own.
// "" outside of a build.
func (b *build) markPath() string {
	if top := b.top(); top != "" {
		return filepath.Join(top, "cuda-runpath-fixed")
	}
	return ""
}

// top is the directory of a build, which is its own. "" in nix-shell, where that may be /tmp.
func (b *build) top() string {
	if b.isTrue("IN_NIX_SHELL") {
		return ""
	}
	return b.text("NIX_BUILD_TOP")
}

func (b *build) mark(text string) error {
	if b.markPath() == "" {
		return nil
	}
	return plainfile.Write(b.markPath(), 0o644, []byte(text))
}

// end is the moment at which the build has succeeded: whether what the tools left still holds, where anything has
// changed since. The tools walk the outputs again, and what they would edit counts, whichever file it is in.
func (b *build) end() error {
	if b.markPath() == "" {
		return nil
	}
	mark, err := os.Lstat(b.markPath())
	if errors.Is(err, fs.ErrNotExist) {
		b.sayNothingRan()
		return nil
	} else if err != nil {
		return err
	}
	// In a shell of its own a failure ends that shell alone.
	if said, err := regular.Read(b.markPath(), 1<<10); err != nil || string(said) != fixed {
		return errors.New(
			"the hooks failed at the end of postFixup, and the build went on without them; what they said is above")
	}
	changed, err := b.changedSince(mark)
	if err != nil || !changed {
		return err
	}
	quiet := func(string) {}
	tools, err := b.editing(quiet)
	if err != nil {
		return err
	}
	walks, err := b.walks(tools)
	if err != nil {
		return err
	}
	if flag, _ := disagreeing(walks); flag != "" { // what the others leave is not what stays
		walks = walks[len(walks)-1:]
	}
	failed := false
	for _, w := range walks {
		w.args = slices.DeleteFunc(slices.Clone(w.args), func(arg string) bool { return arg == resolutionNote })
		undone, err := b.wouldEdit(w)
		if err != nil {
			return err
		}
		failed = failed || undone
	}
	for _, tool := range others {
		if !b.asked(tool) || b.switchedOff(tool) != "" {
			continue
		}
		args, err := b.checks(tool, quiet)
		if err != nil {
			return err
		}
		if args == nil {
			continue
		}
		w := walk{[]string{tool}, args}
		if tool == "thinCuda" {
			undone, err := b.wouldEdit(w)
			if err != nil {
				return err
			}
			failed = failed || undone
			continue
		}
		argv := b.command(w, b.paths())
		var said bytes.Buffer
		if b.start(&said, &said, nil, argv[0], argv[1:]...) != 0 {
			b.log.Write(said.Bytes())
			b.fail(tool + " finds this because a phase after fixup changed files")
			failed = true
		}
	}
	if failed {
		b.fail(
			"what a phase after fixup (postPhases, distPhase, a check phase) did undoes what the hooks did at the end of " +
				"postFixup. " +
				"Do it in postFixup, or say it: appendRunpaths for directories that autoPatchelf adds, cudaOpened for libraries " +
				"that are opened by name")
		return errReported
	}
	return nil
}

// sayNothingRan says that whoever switches fixup off switches the tools off.
func (b *build) sayNothingRan() {
	var tools []string
	for _, tool := range Tools() {
		stands := func(function string) bool { return nixpkgsFunctions[function] == tool }
		if b.asked(tool) || slices.ContainsFunc(b.brought("stands-for"), stands) {
			tools = append(tools, tool)
		}
	}
	if len(tools) > 0 {
		b.note("no postFixup hooks ran in this build (dontFixup, or phases without them): " + strings.Join(tools, " ") +
			" did nothing")
	}
}

// changedSince reports whether a directory or an ELF file in the outputs changed when the mark was made, or later. What
// is moved in keeps its own times, and so does all that is below it; the directory that it comes into does not.
func (b *build) changedSince(mark fs.FileInfo) (changed bool, err error) {
	since := mark.Sys().(*syscall.Stat_t).Ctim.Nano()
	for _, output := range b.paths() {
		err := filepath.WalkDir(output, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() && !e.IsDir() {
				return nil // what cannot be read was said when the tools ran
			}
			st, err := e.Info()
			if err != nil || st.Sys().(*syscall.Stat_t).Ctim.Nano() < since {
				return nil
			}
			if e.IsDir() || isELF(path) {
				changed = true
				return fs.SkipAll
			}
			return nil
		})
		if err != nil || changed {
			return changed, err
		}
	}
	return false, nil
}

// wouldEdit reports whether a walk would edit a file again, and says which.
func (b *build) wouldEdit(w walk) (bool, error) {
	argv := b.command(w, b.paths(), "--dry-run", "--json")
	var document, said bytes.Buffer
	status := b.start(&document, &said, nil, argv[0], argv[1:]...)
	var report struct {
		Files []struct {
			Path, Action  string
			Before, After []string
		}
	}
	if err := json.Unmarshal(document.Bytes(), &report); err != nil {
		return false, fmt.Errorf("%s: exit status %d: %s", remedy.Quote(argv...), status, strings.TrimSpace(said.String()))
	}
	edited := false
	for _, file := range report.Files {
		before, after := runpath.List(file.Before), runpath.List(file.After)
		again := len(after) < len(before) && slices.Equal(before.Unique(), after.Unique()) // leads nowhere else
		if file.Action == "edited" && !again {
			edited = true
			b.fail(fmt.Sprintf("%s: a phase after fixup changed it: %s would make its run path '%s' of '%s' again",
				remedy.Line(file.Path),
				strings.Join(w.tools, ", "), strings.Join(file.After, ":"), strings.Join(file.Before, ":")))
		}
	}
	return edited, nil
}
