package hook

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// state is what a shim hands over. Values of a variable that has more than one, or whose name ends in "Array", are an
// array's, and where it ends in "!" an attribute set's.
type state map[string][]string

func (s state) text() string {
	var b strings.Builder
	for name, values := range s {
		attributes := ""
		if name, is := strings.CutSuffix(name, "!"); is {
			fmt.Fprintf(&b, "%s\x00A\x00%d\x00%s\x00", name, len(values), strings.Join(values, "\x00"))
			continue
		}
		if len(values) != 1 || strings.HasSuffix(name, "Array") || name == "cudaRunpathGiven" || name == "arguments" {
			attributes = "a"
		}
		if name == "cudaRunpathGiven" && !slices.Contains(values, "none") && !strings.Contains(strings.Join(values, "\n"), "program=") {
			values = append(slices.Clone(values), "program=1.0.0 /T")
		}
		fmt.Fprintf(&b, "%s\x00%s\x00%d\x00", name, attributes, len(values))
		for _, value := range values {
			b.WriteString(value + "\x00")
		}
	}
	return b.String()
}

// at runs a moment. What the tools would run as stands in the answers as "run COMMAND", status is what the tools end with.
func at(t *testing.T, s state, status int, moment string, args ...string) []string {
	t.Helper()
	if s["cudaRunpathProgram"] == nil {
		s["cudaRunpathProgram"] = []string{"/T/bin/runpath"}
	}
	var out strings.Builder
	a := &answers{out: &out}
	b := &build{answers: a, log: io.Discard, start: func(stdout, stderr io.Writer, variables []string, program string, args ...string) int {
		a.say(strings.Join(slices.Concat([]string{"run"}, variables, []string{program}, args), " "))
		if slices.Contains(args, "--json") {
			io.WriteString(stdout, strings.Join(s["document"], ""))
		}
		return status
	}}
	s = with(s, state{"arguments": args})
	if err := b.tell(moment, strings.NewReader(s.text())); err != nil && status == 0 && !strings.Contains(out.String(), "error ") {
		t.Errorf("%s: %v", moment, err)
	}
	return slices.DeleteFunc(strings.Split(out.String(), "\x00"), func(word string) bool { return word == "" })
}

// outputs are what a package has built: one output that is there, one that is a link, and one that is not.
func outputs(t *testing.T) (string, state) {
	out := filepath.Join(t.TempDir(), "out")
	os.Mkdir(out, 0o755)
	os.Symlink("out", out+"-link")
	return out, state{"output:out": {out}, "output:lib": {out + "-link"}, "output:dev": {out + "-dev"}, "NIX_BUILD_CORES": {"2"}}
}

func with(s state, more state) state {
	all := state{}
	for _, one := range []state{s, more} {
		for name, values := range one {
			all[name] = values
		}
	}
	return all
}

// The hooks of cudaRunpathHook.
var four = []string{"program=1.0.0 /T", "tool=stubReplace", "tool=autoAddDriverRunpath", "tool=addCudaCompatRunpath", "tool=noRunpathAmbiguity", "compat=/C", "settings="}

// What each setting makes of the command lines, and what is said. OUT stands for the output, COMMON for what each tool gets.
func TestFixup(t *testing.T) {
	out, base := outputs(t)
	base["cudaRunpathGiven"] = four
	const together = "run /T/bin/runpath normalize --tool stubReplace --tool autoAddDriverRunpath --tool addCudaCompatRunpath COMMON "
	const check = "run /T/bin/noRunpathAmbiguity COMMON "
	const nix = "--nix --hook stubReplace --hook autoAddDriverRunpath --hook addCudaCompatRunpath "
	usual := []string{together + "--compat /C -- OUT", check + "--compat /C " + nix + "-- OUT"}
	for _, c := range []struct {
		name string
		more state
		want []string // each in an answer, in this order
	}{
		{"nothing is set", nil, usual},
		{"false", state{"dontStubReplace": {""}, "clearExecutableStacks": {""}, "cudaThin": {""}}, usual},
		{"listed twice", state{"cudaRunpathGiven": slices.Concat(four, four)}, usual},
		{"places", state{"driverLink": {"/opt/lib64//"}, "driverLinkPosition": {"last"}, "cudaCompat": {"/D"}}, []string{
			together + "--driver-link /opt/lib64/lib --compat /D --position last -- OUT", check + "--driver-link /opt/lib64/lib --compat /D " + nix + "-- OUT"}},
		{"a link of a hook", state{"cudaRunpathGiven": append(slices.Clone(four), "link=/opt/gpu")}, []string{together + "--driver-link /opt/gpu/lib --compat /C -- OUT"}},
		{"no compat", state{"cudaCompat": {""}}, []string{"log addCudaCompatRunpath: cudaCompat is empty", "run /T/bin/runpath normalize --tool stubReplace --tool autoAddDriverRunpath COMMON -- OUT"}},
		{"compat that nobody knows", state{"cudaRunpathGiven": {"tool=addCudaCompatRunpath", "compat-unknown=WHY"}}, []string{"error addCudaCompatRunpath: WHY; set cudaCompat to its directory", "status 1"}},
		{"two compats", state{"cudaRunpathGiven": append(slices.Clone(four), "compat=/D")}, []string{"error addCudaCompatRunpath came with different compat directories: /C /D; say", "status 1"}},
		{"a compat for stubs", state{"cudaRunpathGiven": {"tool=stubReplace", "tool=autoAddDriverRunpath", "stubs-compat=/S"}}, []string{
			"run /T/bin/runpath normalize --tool stubReplace --tool autoAddDriverRunpath COMMON --compat /S --compat-for-stubs -- OUT"}},
		{"a compat for stubs, and none wanted", state{"cudaRunpathGiven": {"tool=stubReplace", "stubs-compat=/S"}, "cudaCompat": {""}}, []string{"run /T/bin/stubReplace COMMON -- OUT"}},
		{"a compat for stubs, and one for all", state{"cudaRunpathGiven": append(slices.Clone(four), "stubs-compat=/S")}, usual},
		{"two links", state{"cudaRunpathGiven": append(slices.Clone(four), "link=/a", "link=/b")}, []string{"error the hooks came with different driver links: /a /b; say", "status 1"}},
		{"a link with lib", state{"driverLink": {"/opt/lib//"}}, []string{"error driverLink is '/opt/lib', which must be the directory without its last part, lib: '/opt'", "status 1"}},
		{"a switch", state{"dontStubReplace": {"1"}}, []string{"log stubReplace: switched off by dontStubReplace", "normalize --tool autoAddDriverRunpath --tool addCudaCompatRunpath COMMON",
			"--nix --hook stubReplace: switched off by dontStubReplace --hook autoAddDriverRunpath --hook addCudaCompatRunpath -- OUT"}},
		{"nixpkgs' switch", state{"dontUseAutoAddOpenGLRunpath": {"1"}}, []string{"log autoAddDriverRunpath: switched off by dontUseAutoAddOpenGLRunpath"}},
		{"strict", state{"cudaRunpathStrict": {"1"}}, []string{"--tool addCudaCompatRunpath --jobs 2 --force-runpath --in-place --compat"}},
		{"stacks and notes", state{"clearExecutableStacks": {"1"}, "cudaResolutionNote": {"1"}}, []string{together + "--compat /C --clear-execstack --resolution-note -- OUT", check + "--compat /C " + nix + "-- OUT"}},
		{"notes, and one tool has flags", state{"cudaResolutionNote": {"1"}, "stubReplaceFlags": {"--stub x"}},
			[]string{"run /T/bin/runpath normalize --tool stubReplace COMMON --compat /C --resolution-note --stub x -- OUT",
				"run /T/bin/runpath normalize --tool autoAddDriverRunpath COMMON"}},
		{"a check of the GPUs", state{"cudaRunpathCheckCapabilities": {"1"}, "cudaCapabilities": {"9.0"}, "cudaCapabilitiesCheckFlags": {"--warn"}},
			[]string{"run /T/bin/runpath gpu COMMON --for 9.0 --nix --warn -- OUT"}},
		{"stdenv's notes", state{"cudaRunpathGiven": append(slices.Clone(four), "notes=")}, []string{together + "--compat /C --resolution-note"}},
		{"stdenv's notes, nothing to be patched", state{"cudaRunpathGiven": append(slices.Clone(four), "notes="), "dontPatchELF": {"1"}}, usual},
		{"the package's own notes, nothing to be patched", state{"cudaRunpathGiven": append(slices.Clone(four), "notes="), "dontPatchELF": {"1"}, "cudaResolutionNote": {"1"}}, []string{together + "--compat /C --resolution-note"}},
		{"stdenv's notes, patched by autoPatchelf", state{"cudaRunpathGiven": append(slices.Clone(four), "notes="), "dontPatchELF": {"1"}, "function:autoPatchelf": {}}, []string{together + "--compat /C --resolution-note"}},
		{"no notes", state{"cudaRunpathGiven": append(slices.Clone(four), "notes="), "dontGenerateLDCache": {"1"}, "cudaResolutionNote": {"1"}}, usual},
		{"notes where nothing edits", state{"cudaRunpathGiven": {"tool=noRunpathAmbiguity", "notes="}}, []string{"notes", check}},
		{"stdenv's notes, and fixupElfHook", state{"cudaRunpathGiven": {"elf=", "notes="}}, []string{"run /T/bin/runpath cache write --jobs 2 --malformed warn --in-place -- OUT"}},
		{"stdenv has no notes, and fixupElfHook", state{"cudaRunpathGiven": {"elf="}}, []string{"status 0"}},
		{"fixupElfHook, no notes", state{"cudaRunpathGiven": {"elf=", "notes="}, "dontGenerateLDCache": {"1"}}, []string{"status 0"}},
		{"fixupElfHook, nothing to be patched", state{"cudaRunpathGiven": {"elf=", "notes="}, "dontPatchELF": {"1"}}, []string{"status 0"}},
		{"fixupElfHook and the others", state{"cudaRunpathGiven": append(slices.Clone(four), "elf=", "notes=")}, []string{together + "--compat /C --resolution-note", check}},
		{"ignored", state{"noRunpathAmbiguityIgnore": {" lib*.so\n\tlibx.so.1 "}}, []string{check + "--compat /C " + nix + "--ignore lib*.so --ignore libx.so.1 -- OUT"}},
		{"flags of one tool", state{"autoAddDriverRunpathFlags": {"--when needed"}, "autoAddDriverRunpathFlagsArray": {"--x", "a b"}}, []string{
			"run /T/bin/stubReplace COMMON --compat /C -- OUT", "run /T/bin/autoAddDriverRunpath COMMON --compat /C --when needed --x a b -- OUT", "run /T/bin/addCudaCompatRunpath COMMON --compat /C -- OUT"}},
		{"a flag that all must hear", state{"stubReplaceFlags": {"--force-rpath"}}, []string{"log warning: --force-rpath is in the flags of only one tool, and the tool that runs last decides; give it to each of them"}},
		{"a setting that all must hear", state{"stubReplaceFlags": {"--position=last"}}, []string{"log warning: --position is in the flags of only one tool, and the tool that runs last decides; set driverLinkPosition in its place"}},
		{"the same, and another flag", state{"stubReplaceFlags": {"--position=last --verbose"}}, []string{"log warning: --position is in the flags of only one tool"}},
		{"flags of another kind", state{"stubReplaceFlags!": {"x"}}, []string{"error stubReplaceFlags must be a string or a list, not an attribute set", "status 1"}},
		{"thin, no list", state{"cudaThin": {"1"}}, []string{"error cudaThin: for which GPUs? Add a line to the package, such as cudaCapabilities = cudaPackages.flags.cudaCapabilities;", "status 1"}},
		{"check, no list", state{"cudaRunpathCheckCapabilities": {"1"}}, []string{"error cudaRunpathCheckCapabilities: for which GPUs?", "status 1"}},
		{"thin, the package's list", state{"cudaThin": {"1"}, "cudaCapabilities": {"8.0", "9.0+PTX"}}, []string{"run /T/bin/runpath thin COMMON --for 8.0 9.0+PTX --nix --keep-length -- OUT", check}},
		{"thin, an empty list", state{"cudaThin": {"1"}, "cudaCapabilities": {}}, []string{"log thinCuda: neither the setting cudaCapabilities nor the CUDA set names GPUs: nothing to do for them", check}},
		{"thin, the set's list", state{"cudaThin": {"1"}, "cudaRunpathGiven": append(slices.Clone(four), "gpus=9.0")}, []string{"run /T/bin/runpath thin COMMON --for 9.0 --nix --keep-length -- OUT"}},
		{"thin, and cut", state{"cudaThin": {"1"}, "cudaThinCut": {"1"}, "cudaCapabilities": {"9.0"}}, []string{"run /T/bin/runpath thin COMMON --for 9.0 --nix --cut -- OUT"}},
		{"thin, and cut by its flags", state{"cudaThin": {"1"}, "thinCudaFlags": {"--cut"}, "cudaCapabilities": {"9.0"}}, []string{"run /T/bin/runpath thin COMMON --for 9.0 --nix --cut -- OUT"}},
		{"cut alone", state{"cudaThinCut": {"1"}}, []string{"log warning: cudaThinCut says how cudaThin thins, and that is not set"}},
		{"thin, two lists", state{"cudaThin": {"1"}, "cudaRunpathGiven": append(slices.Clone(four), "gpus=9.0", "gpus=8.0")}, []string{"error the hooks came with different lists of GPUs: 9.0 8.0; say"}},
		{"blank", state{"cudaBlankOptions": {"1"}}, []string{"run /T/bin/runpath thin COMMON --nix --keep-length --blank-options -- OUT"}},
		{"blank and thin, an empty list", state{"cudaBlankOptions": {"1"}, "cudaThin": {"1"}, "cudaCapabilities": {""}}, []string{"run /T/bin/runpath thin COMMON --nix --keep-length --blank-options -- OUT"}},
		{"the hook that thins", state{"cudaRunpathGiven": {"tool=thinCuda", "gpus=9.0"}}, []string{"run /T/bin/runpath thin COMMON --for 9.0 --nix --keep-length -- OUT"}},
		{"thin is for cudaRunpathHook", state{"cudaRunpathGiven": {"tool=stubReplace"}, "cudaThin": {"1"}}, []string{"run /T/bin/stubReplace COMMON -- OUT"}},
		{"thin, switched off", state{"cudaThin": {"1"}, "dontThinCuda": {"1"}}, []string{"log thinCuda: switched off by dontThinCuda"}},
		{"autoPatchelf in a phase", state{"cudaRunpathAutoPatchelf": {"1"}, "NIX_BINTOOLS": {"/B"}}, []string{
			"run /T/bin/autoPatchelf --jobs 2 --ignore-missing --paths OUT", together}},
		{"two releases", state{"cudaRunpathGiven": append(slices.Clone(four), "program=1.1.0 /U")}, []string{"error this build mixes hooks of different releases: 1.0.0 (/T), 1.1.0 (/U). Take all of them from one release", "status 1"}},
		{"one release at two store paths", state{"cudaRunpathGiven": append(slices.Clone(four), "program=1.0.0 /U")}, usual},
		{"what the hooks brought is gone", state{"cudaRunpathGiven": {"none"}}, []string{"error what the hooks of this build brought is lost", "status 1"}},
		{"a phase that no list has", state{"postPatchelfPhase": {"x"}}, slices.Concat([]string{"log warning: postPatchelfPhase is set and does not run: no list of phases has it; postPhases = [ \"postPatchelfPhase\" ]"}, usual)},
		{"a phase in postPhases", state{"postPatchelfPhase": {"x"}, "postPhases": {"y postPatchelfPhase"}}, usual},
		{"a phase in phases", state{"postPatchelfPhase": {"x"}, "phases": {"fixupPhase", "postPatchelfPhase"}}, usual},
		{"empty elements", state{"noRunpathAmbiguityIgnore": {"", "libx.so.1", ""}}, []string{check + "--compat /C " + nix + "--ignore libx.so.1 -- OUT"}},
		{"empty elements of flags", state{"autoAddDriverRunpathFlags": {"", ""}}, usual},
		{"empty elements of an array", state{"autoAddDriverRunpathFlagsArray": {""}}, []string{"run /T/bin/autoAddDriverRunpath COMMON --compat /C  -- OUT"}},
		{"stands for nixpkgs' hook", state{"cudaRunpathGiven": {"stands-for=addDriverRunpath", "entry=addDriverRunpath"}}, []string{"run /T/bin/autoAddDriverRunpath COMMON -- OUT"}},
		{"nixpkgs' entry is gone", state{"cudaRunpathGiven": {"stands-for=addDriverRunpath"}}, []string{"log autoAddDriverRunpath: switched off: 'autoFixElfFiles addDriverRunpath' is no longer in postFixupHooks"}},
		{"the check is told of it", state{"cudaRunpathGiven": {"stands-for=addDriverRunpath", "off=stubReplace dontX", "tool=noRunpathAmbiguity", "tool=addCudaCompatRunpath"}, "cudaCompat": {""}}, []string{
			"--nix --hook autoAddDriverRunpath: switched off: 'autoFixElfFiles addDriverRunpath' is no longer in postFixupHooks --hook stubReplace: switched off by dontX --hook addCudaCompatRunpath: cudaCompat is empty, nothing to add -- OUT"}},
		{"no outputs", state{"output:out": {"/none"}}, []string{"log stubReplace, autoAddDriverRunpath, addCudaCompatRunpath: no outputs to look at"}},
	} {
		answers := at(t, with(base, c.more), 0, "fixup")
		rest := answers
		for _, want := range c.want {
			want = strings.NewReplacer("OUT", out, "COMMON", common(want)).Replace(want)
			i := slices.IndexFunc(rest, func(answer string) bool { return strings.Contains(answer, want) })
			if i < 0 {
				t.Errorf("%s: no answer %q in:\n%s", c.name, want, strings.Join(answers, "\n"))
				break
			}
			rest = rest[i+1:]
		}
		ran := 0
		for _, answer := range answers {
			if strings.HasPrefix(answer, "run ") {
				ran++
			}
		}
		if equal := slices.Equal(c.want, usual); equal && ran != len(usual) {
			t.Errorf("%s: %d tools ran:\n%s", c.name, ran, strings.Join(answers, "\n"))
		}
		if failed := strings.Contains(strings.Join(c.want, "\n"), "error "); failed != (answers[len(answers)-1] != "status 0") {
			t.Errorf("%s ends with %s", c.name, answers[len(answers)-1])
		}
	}
}

// In which order the hooks came decides nothing.
func TestEveryOrder(t *testing.T) {
	_, s := outputs(t)
	orders := [][]string{{"compat=/C"}}
	for _, tool := range []string{"stubReplace", "autoAddDriverRunpath", "addCudaCompatRunpath", "noRunpathAmbiguity"} {
		var longer [][]string
		for _, order := range orders {
			for i := range len(order) + 1 {
				longer = append(longer, slices.Insert(slices.Clone(order), i, "tool="+tool))
			}
		}
		orders = longer
	}
	var first []string
	for _, order := range orders {
		answers := at(t, with(s, state{"cudaRunpathGiven": order}), 0, "fixup")
		if first == nil {
			first = answers
		}
		if len(answers) != 5 || !slices.Equal(answers, first) {
			t.Errorf("%v: %q, and of %v: %q", order, answers, orders[0], first)
		}
	}
}

// A tool that fails ends the build with its own status, and what repeats it is said.
func TestFailingTool(t *testing.T) {
	out, s := outputs(t)
	s["cudaRunpathGiven"] = []string{"tool=stubReplace"}
	s["stubReplaceFlags"] = []string{"--stub '*"}
	answers := at(t, s, 2, "fixup")
	want := "error stubReplace failed with exit status 2; what it said is above. The same again: /T/bin/stubReplace --jobs 2 --malformed warn --force-runpath --in-place --stub ''\\''*' -- " + out
	if !slices.Contains(answers, want) || answers[len(answers)-1] != "status 2" {
		t.Errorf("want %s in:\n%s", want, strings.Join(answers, "\n"))
	}
}

// common are the arguments that every tool gets, or every one that edits run paths.
func common(command string) string {
	if strings.Contains(command, "noRunpathAmbiguity") || strings.Contains(command, "runpath thin") || strings.Contains(command, "runpath gpu") {
		return "--jobs 2 --malformed warn"
	}
	return "--jobs 2 --malformed warn --force-runpath --in-place"
}

// What packages call by hand.
func TestFunctions(t *testing.T) {
	out, s := outputs(t)
	s["cudaRunpathGiven"] = []string{"compat=/C", "tool=stubReplace", "tool=autoAddDriverRunpath"}
	file := filepath.Join(out, "f")
	os.WriteFile(file, nil, 0o644)
	os.Symlink("f", file+"-link")
	for i, to := 1, "f"; i <= 41; i++ {
		next := fmt.Sprint("f-", i)
		os.Symlink(to, filepath.Join(out, next))
		to = next
	}
	for _, c := range []struct {
		call string
		more state
		want []string
	}{
		{"addDriverRunpath --force-rpath -- F-link", nil, []string{"run /T/bin/autoAddDriverRunpath --force-rpath COMMON --compat /C -- F", "status 0"}},
		{"addDriverRunpath F-40 F-41", nil, []string{"log warning: addDriverRunpath: F-41 does not exist", "-- F", "status 0"}},
		{"addDriverRunpath F gone", nil, []string{"log warning: addDriverRunpath: gone does not exist", "run /T/bin/autoAddDriverRunpath COMMON --compat /C -- F", "status 0"}},
		{"addDriverRunpath gone", state{"cudaRunpathStrict": {"1"}}, []string{"error addDriverRunpath: gone does not exist", "status 1"}},
		{"addDriverRunpath", nil, []string{"status 0"}},
		{"addDriverRunpath --x F", nil, []string{"error addDriverRunpath: unknown argument --x; it takes --force-rpath and paths", "status 1"}},
		{"addCudaCompatRunpath F", nil, []string{"run /T/bin/addCudaCompatRunpath COMMON --compat /C -- F", "status 0"}},
		{"addCudaCompatRunpath F", state{"cudaRunpathGiven": {}}, []string{"log addCudaCompatRunpath: there is no compat package for this platform, nothing to add", "status 0"}},
		{"removeStubsFromRunpath F", nil, []string{"run /T/bin/stubReplace COMMON --compat /C -- F", "status 0"}},
		{"autoPatchelf --no-recurse -- F", state{
			"NIX_BINTOOLS": {"/B"}, "NIX_BUILD_TOP": {"/build"}, "autoPatchelfLibs": {"/a/lib", "/b/lib"}, "extraAutoPatchelfLibs": {"/e"},
			"appendRunpaths": {"/x /y"}, "appendRunpathsArray": {"/z"}, "runtimeDependencies": {"/r"}, "autoPatchelfIgnoreMissingDeps": {"1"},
			"patchelfFlags": {"--p"}, "autoPatchelfFlags": {"--f"}, "cudaOpened": {"1"}, "driverLinkPosition": {"last"},
		}, []string{"log warning: autoPatchelf: autoPatchelfIgnoreMissingDeps = true is deprecated",
			"run /T/bin/autoPatchelf --jobs 2 --ignore-missing * --paths F --libs /a/lib /b/lib /e --runtime-dependencies /r/lib --append-rpaths /z /x /y" +
				" --no-recurse --opened --temporary /build --expect-driver --tool stubReplace --expect-driver --tool autoAddDriverRunpath --compat /C --position last --f --extra-args --p", "status 0"}},
		{"autoPatchelf F", state{"NIX_BINTOOLS": {"/B"}, "runtimeDependencies": {"", "/r"}, "runtimeDependenciesArray": {"", "/s"}}, []string{"--runtime-dependencies /lib /s/lib /lib /r/lib --append", "status 0"}},
		{"autoPatchelf F", nil, []string{"error autoPatchelf: nothing says which interpreter", "status 1"}},
		{"autoPatchelf F", state{"cudaRunpathGiven": {"bintools=/H"}}, []string{"run NIX_BINTOOLS=/H /T/bin/autoPatchelf", "status 0"}},
		{"autoPatchelf", nil, []string{"error autoPatchelf: no path is given", "status 1"}},
		{"autoPatchelfPostFixup", state{"dontAutoPatchelf": {"1"}}, []string{"status 0"}},
		{"autoPatchelfPostFixup", state{"NIX_BINTOOLS": {"/B"}, "cudaRunpathGiven": {"elf=", "notes="}, "function:autoPatchelf": {}}, []string{"--append-rpaths --resolution-note --extra-args", "status 0"}},
		{"autoPatchelfPostFixup", state{"NIX_BINTOOLS": {"/B"}, "cudaRunpathGiven": {"notes="}, "function:autoPatchelf": {}}, []string{"--append-rpaths --extra-args", "status 0"}},
		{"autoPatchelfPostFixup", state{"NIX_BINTOOLS": {"/B"}, "output:debug": {out}, "output:lib": {"/none"}}, []string{"--paths OUT --libs", "status 0"}},
	} {
		words := strings.Fields(strings.ReplaceAll(c.call, "F", file))
		words[0] = strings.Fields(c.call)[0]
		answers := at(t, with(s, c.more), 0, words[0], words[1:]...)
		for i, want := range c.want {
			want = strings.NewReplacer("OUT", out, "COMMON", common(want)).Replace(want)
			want = regexp.MustCompile(`\bF\b`).ReplaceAllString(want, file)
			if len(answers) != len(c.want) || !strings.Contains(answers[i], want) {
				t.Errorf("%s: no answer %q in:\n%s", c.call, want, strings.Join(answers, "\n"))
				break
			}
		}
	}
}

// manyFiles makes more files than a command line can name (2 MB): they have long paths.
func manyFiles(t *testing.T, dir, text string) (files []string) {
	t.Helper()
	deep := filepath.Join(dir, strings.Repeat(strings.Repeat("d", 200)+"/", 15))
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 900 {
		files = append(files, filepath.Join(deep, fmt.Sprintf("lib%03d.so", i)))
		if err := os.WriteFile(files[i], []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// A function of the shell may have more arguments than a program.
func TestFunctionWithManyFiles(t *testing.T) {
	tools := t.TempDir()
	out, s := outputs(t)
	os.WriteFile(filepath.Join(tools, "autoAddDriverRunpath"), []byte("#!/bin/sh\nprintf '%s\\n' \"$@\" >> "+tools+"/given\n"), 0o755)
	s["cudaRunpathGiven"], s["cudaRunpathProgram"] = four[:1], []string{tools + "/runpath"}
	want := manyFiles(t, out, "")
	s["arguments"] = want
	var said strings.Builder
	b := &build{answers: &answers{out: &said}, log: &said, start: start}
	b.tell("addDriverRunpath", strings.NewReader(s.text()))
	given, _ := os.ReadFile(filepath.Join(tools, "given"))
	var files []string
	for _, line := range strings.Split(string(given), "\n") {
		if strings.HasPrefix(line, "/") {
			files = append(files, line)
		}
	}
	if said.String() != "status 0\x00" || !slices.Equal(files, want) {
		t.Errorf("%d files of %d: %.400q", len(files), len(want), said.String())
	}
}

// Where shared objects are, as find prints their directories.
func TestDirectories(t *testing.T) {
	d := t.TempDir()
	for _, name := range []string{"a/liba.so", "a/b/libb.so.1", "a/c/text", "e/x.so/y"} {
		os.MkdirAll(filepath.Dir(filepath.Join(d, name)), 0o755)
		os.WriteFile(filepath.Join(d, name), nil, 0o644)
	}
	for args, want := range map[string]string{
		"-- " + d:                        d + "/a\x00" + d + "/a/b\x00",
		"--no-recurse -- " + d + "/a":    d + "/a\x00",
		d + "/a/b " + d + "/a/liba.so":   d + "/a\x00" + d + "/a/b\x00",
		"--no-recurse " + d + "/e " + d:  "",
		"--no-such-flag " + d:            "unknown argument --no-such-flag; it takes --no-recurse and paths",
		filepath.Join(d, "none", "here"): "no such file or directory",
	} {
		var out strings.Builder
		if err := directories(&out, strings.Fields(args)); err != nil {
			out.WriteString(err.Error())
		}
		if !strings.HasSuffix(out.String(), want) || want == "" && out.Len() > 0 {
			t.Errorf("%s: %q, want %q", args, out.String(), want)
		}
	}
}

// Stubs for the check phases: asked for before fixup, too late, where there is a driver, and where none are found.
func TestStubs(t *testing.T) {
	_, s := outputs(t)
	top := t.TempDir()
	stubs := filepath.Join(top, "cuda-runpath-stubs")
	s["cudaRunpathGiven"] = []string{"tool=stubReplace"}
	s["NIX_BUILD_TOP"] = []string{top}
	s["driverLink"] = []string{top}
	if answers := at(t, s, 0, "before"); !slices.Equal(answers, []string{"status 0"}) {
		t.Errorf("without the setting: %q", answers)
	}
	s["stubReplaceForChecks"] = []string{"1"}
	if answers := at(t, s, 0, "before"); !slices.Contains(answers, "stubs "+stubs) || !strings.Contains(strings.Join(answers, "\n"), "stubReplace --dry-run --jobs 2 --malformed warn --force-runpath --in-place --driver-link "+top+"/lib --offer "+stubs+" -- ") {
		t.Errorf("before fixup: %q", answers)
	}
	s["cudaRunpathStubs"] = []string{stubs}
	has := func(s state, want string) {
		t.Helper()
		if answers := at(t, s, 0, "fixup"); !strings.Contains(strings.Join(answers, "\n")+"\n", want) {
			t.Errorf("no %q in:\n%s", want, strings.Join(answers, "\n"))
		}
	}
	has(s, "log warning: stubReplaceForChecks: no stubs to offer: no run path named any at the beginning of fixup\n")
	has(with(s, state{"cudaRunpathStubs": nil}), "it was set after the beginning of fixup")
	os.WriteFile(filepath.Join(stubs, "libcuda.so.1"), nil, 0o644)
	has(s, "\noffer\nstatus 0\n")
	if target, _ := os.Readlink(filepath.Join(stubs, "link", "libcuda.so")); target != "../libcuda.so.1" {
		t.Errorf("for the linker: %q", target)
	}
	has(s, "\noffer\nstatus 0\n")
	os.Mkdir(filepath.Join(top, "lib"), 0o755)
	os.WriteFile(filepath.Join(top, "lib", "libcuda.so.1"), nil, 0o644)
	has(s, "log stubReplaceForChecks: the driver is in "+top+"/lib, no stubs needed\nstatus 0\n")
}

// In nix-shell $NIX_BUILD_TOP may be /tmp, where names that anybody can foresee are nobody's own.
func TestShellHasNoForeseeableNames(t *testing.T) {
	top := t.TempDir()
	_, s := outputs(t)
	s["cudaRunpathGiven"] = []string{"tool=stubReplace"}
	s["NIX_BUILD_TOP"], s["TMPDIR"] = []string{top}, []string{t.TempDir()}
	s["IN_NIX_SHELL"] = []string{"impure"}
	s["stubReplaceForChecks"] = []string{"1"}
	for _, moment := range []string{"before", "fixup"} {
		if answers := at(t, s, 0, moment); !slices.Contains(answers, "status 0") {
			t.Errorf("%s: %q", moment, answers)
		}
		if made, err := os.ReadDir(top); err != nil || len(made) > 0 {
			t.Errorf("%s: %v in $NIX_BUILD_TOP, %v", moment, made, err)
		}
	}
}

// A failure that ends only a shell of its own is one of the build all the same.
func TestEndAfterAFailure(t *testing.T) {
	_, s := outputs(t)
	s["cudaRunpathGiven"] = four
	s["NIX_BUILD_TOP"] = []string{t.TempDir()}
	at(t, s, 3, "fixup")
	if answers := at(t, s, 0, "end"); !slices.Contains(answers, "status 1") {
		t.Errorf("after a failure: %q", answers)
	}
	at(t, s, 0, "fixup")
	if answers := at(t, s, 0, "end"); !slices.Contains(answers, "status 0") {
		t.Errorf("after a success: %q", answers)
	}
}

// The changed files of a large package are more than a command line holds.
func TestEndOfManyFiles(t *testing.T) {
	tools, top := t.TempDir(), t.TempDir()
	out, s := outputs(t)
	for _, tool := range []string{"runpath", "noRunpathAmbiguity"} {
		os.WriteFile(filepath.Join(tools, tool), []byte("#!/bin/sh\necho '{}'\n"), 0o755)
	}
	s["cudaRunpathGiven"], s["cudaRunpathProgram"], s["NIX_BUILD_TOP"] = four, []string{tools + "/runpath"}, []string{top}
	tell := func(moment string) string {
		var said strings.Builder
		b := &build{answers: &answers{out: &said}, log: &said, start: start}
		b.tell(moment, strings.NewReader(s.text()))
		return said.String()
	}
	if said := tell("fixup"); !strings.HasSuffix(said, "status 0\x00") {
		t.Fatalf("fixup: %q", said)
	}
	time.Sleep(50 * time.Millisecond)
	manyFiles(t, out, "\x7fELF")
	if said := tell("end"); said != "status 0\x00" {
		t.Errorf("end: %.400q", said)
	}
}

// What later phases change is looked at once more, where they changed an ELF file; what is said is of these.
func TestEnd(t *testing.T) {
	out, s := outputs(t)
	top := t.TempDir()
	s["cudaRunpathGiven"] = slices.Concat(four, []string{"notes="})
	s["NIX_BUILD_TOP"] = []string{top}
	old, text, changed := filepath.Join(out, "old.so"), filepath.Join(out, "text"), filepath.Join(out, "changed.so")
	for _, name := range []string{old, text, changed} {
		os.WriteFile(name, []byte("\x7fELF"), 0o644)
	}
	if answers := at(t, s, 0, "end"); !strings.HasPrefix(answers[0], "log no postFixup hooks ran in this build (dontFixup, or phases without them): stubReplace autoAddDriverRunpath addCudaCompatRunpath noRunpathAmbiguity did nothing") {
		t.Errorf("without fixup: %q", answers)
	}
	time.Sleep(50 * time.Millisecond) // the clock of file systems is a coarse one
	at(t, s, 0, "fixup")
	if answers := at(t, s, 0, "end"); !slices.Equal(answers, []string{"status 0"}) {
		t.Errorf("nothing has changed: %q", answers)
	}
	time.Sleep(50 * time.Millisecond)
	os.WriteFile(text, []byte("text"), 0o644)
	os.Chmod(changed, 0o600)
	for _, c := range []struct {
		document string
		more     state
		status   int
		want     []string
	}{
		{`{"files":[{"path":"CHANGED","action":"unchanged"}]}`, nil, 0, []string{"run /T/bin/runpath normalize --tool", "status 0"}},
		{`{"files":[{"path":"CHANGED","action":"edited","before":["/stubs"],"after":["/drv"]}]}`, nil, 0, []string{"error CHANGED: a phase after fixup changed it", "would make its run path '/drv' of '/stubs' again", "error what a phase after fixup", "status 1"}},
		// An entry that is there once more changes nothing; another tag does.
		{`{"files":[{"path":"CHANGED","action":"edited","before":["/drv","/a","/a","/drv/"],"after":["/drv","/a","/a"]}]}`, nil, 0, []string{"status 0"}},
		{`{"files":[{"path":"CHANGED","action":"edited","before":["/drv"],"after":["/drv"]}]}`, nil, 0, []string{"error CHANGED: a phase after fixup changed it", "status 1"}},
		// It has been moved in, or its directory: its own times say nothing of that.
		{`{"files":[{"path":"OUT/old.so","action":"edited","before":[],"after":["/drv"]}]}`, nil, 0, []string{"error OUT/old.so: a phase after fixup changed it", "status 1"}},
		{`{"files":[]}`, nil, 1, []string{"error noRunpathAmbiguity finds this because a phase after fixup", "status 1"}},
		{`{"files":[]}`, state{"dontNoRunpathAmbiguity": {"1"}}, 1, []string{"status 0"}},
		{`none`, nil, 1, []string{"error /T/bin/runpath normalize", "status 1"}},
	} {
		s := with(s, c.more)
		s["document"] = []string{strings.NewReplacer("CHANGED", changed, "OUT", out).Replace(c.document)}
		all := strings.Join(at(t, s, c.status, "end"), "\n")
		for _, want := range c.want {
			if want = strings.NewReplacer("CHANGED", changed, "OUT", out).Replace(want); !strings.Contains(all, want) {
				t.Errorf("%s %v: no %q in:\n%s", c.document, c.more, want, all)
			}
		}
		for _, line := range strings.Split(all, "\n") {
			if strings.HasPrefix(line, "run ") && !strings.HasSuffix(line, "-- "+out) || strings.Contains(line, "--resolution-note") {
				t.Errorf("%s: looks at more: %s", c.document, line)
			}
		}
	}
	all := strings.Join(at(t, with(s, state{"dontStubReplace": {"1"}, "dontAutoAddDriverRunpath": {"1"}, "dontAddCudaCompatRunpath": {"1"}, "dontNoRunpathAmbiguity": {"1"}}), 1, "end"), "\n")
	if all != "status 0" {
		t.Errorf("all switched off: %s", all)
	}
}

// What ends too early is not understood by halves.
func TestTornState(t *testing.T) {
	whole := "a\x00\x001\x00x\x00l\x00a\x002\x00y\x00z\x00output:out\x00\x001\x00/o\x00"
	if s, err := readShell([]byte(whole)); err != nil || s.text("a") != "x" || s.outputs["out"] != "/o" {
		t.Errorf("%v, %v", s, err)
	}
	for i := 1; i < len(whole); i++ {
		s, err := readShell([]byte(whole[:i]))
		if err == nil && i != strings.Index(whole, "l\x00a") && i != strings.Index(whole, "output") {
			t.Errorf("%q: %v", whole[:i], s)
		}
	}
	// Of the outputs, which come last, there is one in each build.
	if answers := at(t, state{"cudaRunpathGiven": four}, 0, "fixup"); !slices.Equal(answers, []string{"error " + errState.Error(), "status 1"}) {
		t.Errorf("without outputs: %q", answers)
	}
	for _, n := range []string{"-1", "x", strconv.Itoa(1 << 62)} {
		if _, err := readShell([]byte("a\x00\x00" + n + "\x00")); err == nil {
			t.Errorf("%s values", n)
		}
	}
}

// A text is one word, whatever is in it. With half a character at its end bash takes the NUL behind it for the rest.
func TestTextsAreOneWord(t *testing.T) {
	var out strings.Builder
	a := &answers{out: &out}
	a.note("a\x00status 0\xe2")
	if got := out.String(); got != "log a\ufffdstatus 0\ufffd\x00\x00" {
		t.Errorf("%q", got)
	}
}

// A line is printed before what a tool says next: print returns when the pipe is empty.
func TestAnswersAreInOrder(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var read atomic.Int64
	go func() {
		one := make([]byte, 1)
		for {
			if _, err := r.Read(one); err != nil {
				return
			}
			read.Add(1)
			time.Sleep(time.Millisecond)
		}
	}()
	a := &answers{out: w, pipe: w}
	a.note("hello")
	if n := read.Load(); n < int64(len("log hello\x00")) {
		t.Errorf("it returns when %d bytes are read", n)
	}
	w.Close()
}

// A tool that a function runs and that fails leaves the command line that repeats it, too.
func TestFailingFunctions(t *testing.T) {
	out, s := outputs(t)
	file := filepath.Join(out, "f")
	os.WriteFile(file, nil, 0o644)
	for call, want := range map[string]string{
		"autoPatchelf":          "error autoPatchelf failed with exit status 3; what it said is above. The same again: env NIX_BINTOOLS=/H /T/bin/autoPatchelf --jobs 2 --ignore-missing --paths " + file,
		"autoPatchelfPostFixup": "error autoPatchelf failed with exit status 3; what it said is above. The same again: env NIX_BINTOOLS=/H /T/bin/autoPatchelf --jobs 2 --ignore-missing --paths " + out,
		"addDriverRunpath":      "error autoAddDriverRunpath failed with exit status 3; what it said is above. The same again: /T/bin/autoAddDriverRunpath --jobs 2",
	} {
		all := strings.Join(at(t, with(s, state{"cudaRunpathGiven": {"bintools=/H"}}), 3, call, file), "\n")
		if !strings.Contains(all, want) || strings.Count(all, "error ") != 1 || !strings.HasSuffix(all, "\nstatus 3") {
			t.Errorf("%s: no %q in:\n%s", call, want, all)
		}
	}
}

// What a later phase moves into an output keeps its own times; the directory that it comes into does not.
func TestEndOfWhatIsMovedIn(t *testing.T) {
	for name, change := range map[string]func(out, stage string) error{
		"a file":      func(out, stage string) error { return os.Rename(stage+"/l.so", out+"/l.so") },
		"a directory": func(out, stage string) error { return os.Rename(stage, out+"/stage") },
	} {
		out, s := outputs(t)
		top := t.TempDir()
		stage := filepath.Join(top, "stage")
		os.Mkdir(stage, 0o755)
		os.WriteFile(stage+"/l.so", []byte("\x7fELF"), 0o644)
		s["cudaRunpathGiven"], s["NIX_BUILD_TOP"] = four, []string{top}
		s["document"] = []string{`{"files":[{"path":"/l\ufffd.so","action":"edited","before":["/stubs"],"after":["/drv"]}]}`}
		time.Sleep(50 * time.Millisecond)
		at(t, s, 0, "fixup")
		if answers := at(t, s, 0, "end"); !slices.Equal(answers, []string{"status 0"}) {
			t.Errorf("%s: before: %q", name, answers)
		}
		time.Sleep(50 * time.Millisecond)
		if err := change(out, stage); err != nil {
			t.Fatal(err)
		}
		if answers := at(t, s, 0, "end"); !slices.Contains(answers, "status 1") {
			t.Errorf("%s: %q", name, answers)
		}
	}
}
