package cmd_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/remedy"
)

// finding is what an audit, or the check of noRunpathAmbiguity, says of a file.
type oneFinding struct {
	ID, Severity, Message string
	Entry                 string
	Library               string
	remedy.Remedy
}

// examine runs a check with --json and returns the findings of each file.
func examine(t *testing.T, tool []string, args ...string) map[string][]oneFinding {
	t.Helper()
	out := onlyStdout(slices.Concat(tool, []string{"--json"}, args)...)
	var doc struct {
		Files []struct {
			Path     string
			Findings []oneFinding
		}
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		t.Fatalf("%q %q: %v: %s", tool, args, err, out)
	}
	found := map[string][]oneFinding{}
	for _, f := range doc.Files {
		found[f.Path] = f.Findings
	}
	return found
}

// follow runs a remedy. TestRemediesQuoteHostileNames runs what is printed in shells.
func follow(t *testing.T, r remedy.Remedy) {
	t.Helper()
	line := remedy.Quote(r.Command...)
	if r.Fix != line {
		t.Fatalf("printed is %q, but the command is %q", r.Fix, line)
	}
	if out, status := combined(r.Command...); status != 0 {
		t.Fatalf("%s: status %d: %s", line, status, out)
	}
}

// library builds a library in a directory of the working directory; the run path may be "".
func library(t *testing.T, path, soname, list string, args ...string) {
	t.Helper()
	os.MkdirAll(filepath.Dir(path), 0o755)
	flags := []string{"-Wl,--enable-new-dtags,--no-as-needed"}
	if soname != "" {
		flags = append(flags, "-Wl,-soname,"+soname)
	}
	shared(t, path, append(append(flags, "-xnone"), args...)...)
	if list != "" {
		tool(t, "runpath", "set", "-q", "--force-runpath", "--keep-empty", list, path)
	}
}

// wordsOnly are the findings whose remedy is no command, and why.
var wordsOnly = map[string]string{
	finding.DriverAbsent:       "nothing is to be done on a build machine",
	finding.UnresolvedIndirect: "where the library is, is not known",
	finding.MissingVersion:     "a newer library must come from somewhere",
	finding.LibcMismatch:       "which of the two is right is not known",
	finding.FHSInterpreter:     "the package is to be built with another hook",
	finding.LoadError:          "the file is broken",
	finding.UndefinedSymbol:    "which library defines it is known of the driver's alone",
	finding.ByEnvironment:      "who sets the variable is not known",
	finding.TwoMajors:          "which of the two is meant is not known",
	finding.OpenedAbsent:       "the part may be nowhere here",
	finding.ProgramAbsent:      "where the program is, is not known",
	finding.UnknownStart:       "it is only said",
	finding.OpenFails:          "what it lacks may be nowhere here",
	finding.UnfitDriver:        "the driver of the host is to be changed",
	finding.Malformed:          "the file is broken",
	finding.GPUCodeMissing:     "the package is to be built again",
	finding.GPUCodeJIT:         "the package is to be built again",
	finding.GPUCodeUnasked:     "the package is to be built again",
	finding.NothingChecked:     "which directory was meant is not known",
	finding.UnreadableFile:     "the file system, or a limit of the process, is in the way",
}

// remedyCase is a file with a finding that has a remedy.
type remedyCase struct {
	id   string
	list string   // the run path of file.so, which needs libx.so.1 in x/ and has d, the tree's directory, for %[1]s
	args []string // of the checks
	make func(t *testing.T, d string)
	then string // the run path that the remedy leaves
}

var remedyCases = []remedyCase{
	{id: finding.EmptyEntry, list: "%[1]s/x:", then: "%[1]s/x"},
	{id: finding.RelativeEntry, list: "rel/lib:%[1]s/gone", then: "$ORIGIN/rel/lib:%[1]s/gone",
		make: func(t *testing.T, d string) { os.Mkdir("rel", 0o755); os.Rename("x", "rel/lib"); os.Mkdir("x", 0o755) }},
	{id: finding.RelativeEntry, list: "%[1]s/x:rel/lib", then: "%[1]s/x"},
	{id: finding.RelativeEntry, list: "%[1]s/x::rel/lib:", then: "%[1]s/x"},
	{id: finding.UnknownToken, list: "%[1]s/x:$FOO/lib", then: "%[1]s/x"},
	{id: finding.ExecutableStack, list: "%[1]s/x", then: "%[1]s/x",
		make: func(t *testing.T, d string) { library(t, "file.so", "", d+"/x", "x/libx.so.1", "-Wl,-z,execstack") }},
	{id: finding.WritableEntry, list: "%[1]s/x:%[1]s/open", then: "%[1]s/x",
		make: func(t *testing.T, d string) { os.Mkdir("open", 0o755); os.Chmod("open", 0o777) }},
	{id: finding.BuildEntry, list: "/build/source/lib:%[1]s/x", then: "%[1]s/x"},
	{id: finding.FHSEntry, list: "%[1]s/x:/usr/lib/nothing", args: []string{"--nix"}, then: "%[1]s/x"},
	{id: finding.StubEntry, list: "%[1]s/x:/cuda/lib64/stubs", then: "/run/opengl-driver/lib:%[1]s/x"},
	{id: finding.StubEntry, list: "%[1]s/x:/opt/fakes", args: []string{"--stub", "fakes", "--driver-link", "/drv"}, then: "/drv:%[1]s/x"},
	{id: finding.StubLoaded, list: "%[1]s/stubs:%[1]s/x", then: "/run/opengl-driver/lib:%[1]s/x", make: needsCUDA("stubs")},
	{id: finding.DriverBeforeCompat, list: "/run/opengl-driver/lib:%[1]s/cuda/compat:%[1]s/x", then: "%[1]s/cuda/compat:/run/opengl-driver/lib:%[1]s/x",
		make: needsCUDA("cuda/compat")},
	{id: finding.DriverBeforeCompat, list: "/drv:%[1]s/newer:%[1]s/x", args: []string{"--driver-link", "/drv", "--compat", "%[1]s/newer"}, then: "%[1]s/newer:/drv:%[1]s/x",
		make: needsCUDA("newer")},
	{id: finding.CompatHarms, list: "%[1]s/cuda/compat:/run/opengl-driver/lib:%[1]s/x", args: []string{"--assume-driver", "%[1]s/drv"},
		then: "/run/opengl-driver/lib:%[1]s/x", make: func(t *testing.T, d string) {
			needsCUDA("cuda/compat")(t, d)
			os.Rename("cuda/compat/libcuda.so.1", "cuda/compat/libcuda.so.470.57.02")
			os.Symlink("libcuda.so.470.57.02", "cuda/compat/libcuda.so.1")
			library(t, "drv/libcuda.so.550.54.14", "libcuda.so.1", "")
			os.Symlink("libcuda.so.550.54.14", "drv/libcuda.so.1")
		}},
	{id: finding.NoteNamesStub, list: "%[1]s/stubs:%[1]s/x", then: "/run/opengl-driver/lib:%[1]s/x", make: noted("stubs")},
	{id: finding.NoteNamesStub, list: "/drv:%[1]s/fakes:%[1]s/x", args: []string{"--stub", "fakes", "--driver-link", "/drv"}, then: "/drv:%[1]s/x", make: noted("fakes")},
	{id: finding.NoteBypassesDriver, list: "%[1]s/drv:%[1]s/old:%[1]s/x", args: []string{"--driver-link", "%[1]s/drv"}, then: "%[1]s/drv:%[1]s/old:%[1]s/x",
		make: noted("old", "drv")},
	{id: finding.StaleNote, list: "%[1]s/y:%[1]s/x", then: "%[1]s/y:%[1]s/x", make: func(t *testing.T, d string) {
		noted("unused", "y")(t, d)
		library(t, "y/libx.so.1", "libx.so.1", "", "-Wl,--defsym=other=1")
	}},
	{id: finding.UnreadNote, list: "%[1]s/x", args: []string{"--loader-reads-note", "no"}, then: "%[1]s/x", make: func(t *testing.T, d string) {
		if err := compile("file.so", "-xc", "/dev/null", "-xnone", "-nostdlib", "-Wl,-e,0,--no-as-needed", "x/libx.so.1"); err != nil {
			t.Skip(err)
		}
		tool(t, "runpath", "set", "-q", d+"/x", "file.so")
		tool(t, "runpath", "cache", "write", "-q", "file.so")
	}},
	{id: finding.NoDriverLink, list: "%[1]s/x", args: []string{"--nix"}, then: "/run/opengl-driver/lib:%[1]s/x", make: needsCUDA("")},
	{id: finding.Unresolved, list: "", then: "%[1]s/x"},
	{id: finding.Ambiguous, list: "%[1]s/x:%[1]s/y", then: "%[1]s/x",
		make: func(t *testing.T, d string) { library(t, "y/libx.so.1", "libx.so.1", "", "-Wl,--defsym=other=1") }},
	{id: finding.Shadowing, list: "%[1]s/old:/run/opengl-driver/lib:%[1]s/x", then: "/run/opengl-driver/lib:%[1]s/x", make: needsCUDA("old")},
	{id: finding.DuplicateEntry, list: "%[1]s/x:%[1]s/x/", then: "%[1]s/x"},
	{id: finding.DanglingEntry, list: "%[1]s/gone:%[1]s/x", then: "%[1]s/x"},
	{id: finding.UnusedEntry, list: "%[1]s/x:%[1]s/unused", then: "%[1]s/x", make: func(t *testing.T, d string) { os.Mkdir("unused", 0o755) }},
	{id: finding.ShadowedRPath, list: "%[1]s/x:/nothing", then: "%[1]s/x:/nothing",
		make: func(t *testing.T, d string) { addShadowedRPath(t, "file.so", len(d+"/x:")) }},
	{id: finding.KeptReference, list: "%[1]s/x:%[1]s/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-gcc-13.2.0/lib", then: "%[1]s/x",
		make: func(t *testing.T, d string) {
			os.MkdirAll("store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-gcc-13.2.0/lib", 0o755)
		}},
	{id: finding.WrongMachine, list: "%[1]s/wrong:%[1]s/x", then: "%[1]s/x", make: func(t *testing.T, d string) {
		os.Mkdir("wrong", 0o755)
		b, _ := os.ReadFile("x/libx.so.1")
		b[18] = 0xb7 // aarch64; on aarch64 itself, nothing that is known
		if b[18] == b[19] {
			b[18] = 0x3e
		}
		os.WriteFile("wrong/libx.so.1", b, 0o755)
	}},
}

// files makes the files in a directory, which becomes the working directory. It returns the arguments of the checks, and what puts the
// directory into a text.
func (c *remedyCase) files(t *testing.T, d string) (args []string, fill func(string) string) {
	t.Helper()
	t.Chdir(d)
	library(t, "x/libx.so.1", "libx.so.1", "")
	args = slices.Clone(c.args)
	fill = func(s string) string { return strings.ReplaceAll(s, "%[1]s", d) }
	for i := range c.args {
		args[i] = fill(c.args[i])
	}
	library(t, "file.so", "", fill(c.list), "x/libx.so.1")
	if c.make != nil {
		c.make(t, d)
		if _, err := os.Stat("file.so.list"); err == nil { // rebuilt
			tool(t, "runpath", "set", "-q", "--keep-empty", fill(c.list), "file.so")
		}
	}
	return args, fill
}

// Each finding's remedy is followed on a copy: the finding is gone, and no error has come in its place.
func TestRemediesOfTheChecks(t *testing.T) {
	followed := map[string]bool{finding.RelativeNeeded: true, finding.BuildNeeded: true, finding.MangledEntry: true} // in TestSituations
	for _, c := range remedyCases {
		t.Run(c.id, func(t *testing.T) {
			d := t.TempDir()
			d, _ = filepath.EvalSymlinks(d)
			args, fill := c.files(t, d)
			checks := [][]string{{"runpath", "audit"}, {"noRunpathAmbiguity"}}
			original, _ := os.ReadFile("file.so")
			reported := false
			for _, check := range checks {
				with := args
				if check[0] == "noRunpathAmbiguity" {
					with = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "--nix" })
					if slices.Contains(with, "--assume-driver") {
						continue // it looks at no host's driver
					}
				}
				os.WriteFile("file.so", original, 0o755)
				examined := append(slices.Clone(with), "file.so", "x")
				before := examine(t, check, examined...)["file.so"]
				i := slices.IndexFunc(before, func(f oneFinding) bool { return f.ID == c.id })
				if i < 0 {
					continue
				}
				reported = true
				if before[i].Command == nil {
					t.Fatalf("%s: no command in the remedy %q", check, before[i].Whole())
				}
				follow(t, before[i].Remedy)
				after := examine(t, check, examined...)["file.so"]
				for _, f := range after {
					if f.ID == c.id {
						t.Errorf("%s: still there after %s: %s", check, before[i].Fix, f.Message)
					} else if f.Severity == "error" && !slices.ContainsFunc(before, func(b oneFinding) bool { return b.ID == f.ID }) {
						t.Errorf("%s: new after %s: %s", check, before[i].Fix, f.Message)
					}
				}
				if got, want := shownList(t, "file.so"), fill(c.then); got != want {
					t.Errorf("%s: %s leaves %q, not %q", check, before[i].Fix, got, want)
				}
			}
			if !reported {
				t.Errorf("not reported: %+v", examine(t, checks[0], append(args, "file.so", "x")...)["file.so"])
			}
		})
		followed[c.id] = true
	}
	t.Run(finding.DriverByName, func(t *testing.T) {
		t.Chdir(t.TempDir())
		os.WriteFile("s.py", []byte("import ctypes\nctypes.CDLL('libcuda.so.1')\n"), 0o644)
		before := examine(t, []string{"runpath", "audit"}, "s.py")["s.py"]
		if len(before) != 1 || before[0].ID != finding.DriverByName {
			t.Fatalf("%+v", before)
		}
		follow(t, before[0].Remedy)
		if after := examine(t, []string{"runpath", "audit"}, "s.py")["s.py"]; len(after) != 0 {
			t.Errorf("%+v", after)
		}
		followed[finding.DriverByName] = true
	})
	t.Run(finding.NoInterpreter, func(t *testing.T) {
		t.Chdir(t.TempDir())
		os.WriteFile("p.c", []byte("int main(void) { return 0; }\n"), 0o644)
		if out, err := exec.Command("cc", "-o", "p", "p.c", "-Wl,--dynamic-linker=/none/ld.so").CombinedOutput(); err != nil {
			t.Skipf("%v: %s", err, out)
		}
		for _, f := range examine(t, []string{"runpath", "audit"}, "p")["p"] {
			if f.ID == finding.NoInterpreter {
				follow(t, f.Remedy)
				followed[finding.NoInterpreter] = true
			}
		}
		if out, err := exec.Command("./p").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	for _, r := range finding.Situations() {
		if why, ok := wordsOnly[r.ID]; ok == followed[r.ID] {
			t.Errorf("%s: followed here: %v; a remedy in words (%q): %v", r.ID, followed[r.ID], why, ok)
		}
	}
}

// noted makes file.so need libcuda.so.1, which is in a directory, and gives it the note that patchelf
// writes, which does not know the driver's directories and stubs. The other directories are empty.
func noted(dir string, empty ...string) func(*testing.T, string) {
	return func(t *testing.T, d string) {
		list := shownList(t, "file.so")
		needsCUDA(dir)(t, d)
		for _, name := range empty {
			os.Mkdir(name, 0o755)
		}
		tool(t, "runpath", "set", "-q", list, "file.so")
		tool(t, "patchelf", "--build-resolution-cache", "file.so")
		os.Remove("file.so.list")
	}
}

// needsCUDA lets file.so need libcuda.so.1, and puts one into a directory ("": nowhere).
func needsCUDA(dir string) func(*testing.T, string) {
	return func(t *testing.T, d string) {
		at := "elsewhere"
		if dir != "" {
			at = dir
		}
		library(t, at+"/libcuda.so.1", "libcuda.so.1", "")
		library(t, "file.so", "", "", "x/libx.so.1", at+"/libcuda.so.1")
		os.WriteFile("file.so.list", nil, 0o644)
		if dir == "" {
			os.RemoveAll(at)
		}
	}
}

// shownList returns a file's run path as "runpath show" has it.
func shownList(t *testing.T, path string) string {
	t.Helper()
	var doc struct{ Files []struct{ Before []string } }
	if err := json.Unmarshal([]byte(tool(t, "runpath", "show", "--json", path)), &doc); err != nil || len(doc.Files) != 1 {
		t.Fatal(err, doc)
	}
	return strings.Join(doc.Files[0].Before, ":")
}

// A remedy that would take away what the file loads is not a command.
func TestRemediesLoseNoLibrary(t *testing.T) {
	t.Chdir(t.TempDir())
	d, _ := filepath.EvalSymlinks(".")
	d, _ = filepath.Abs(d)
	library(t, "x/libx.so.1", "libx.so.1", "")
	library(t, "y/libx.so.1", "libx.so.1", "", "-Wl,--defsym=other=1")
	library(t, "y/liby.so.1", "liby.so.1", "")
	library(t, "file.so", "", d+"/x:"+d+"/y", "x/libx.so.1", "y/liby.so.1")
	for _, f := range examine(t, []string{"runpath", "audit"}, "file.so")["file.so"] {
		if f.ID == finding.Ambiguous {
			if f.Command != nil || !strings.Contains(f.Whole(), "once liby.so.1 can be found elsewhere") {
				t.Errorf("%+v", f)
			}
			return
		}
	}
	t.Error("no ambiguity found")
}

// A stub in the run path of a library that the program needs, in a directory that only --stub calls one: the remedy edits
// that library, with the settings that the audit had.
func TestRemedyForAStubOfALibrary(t *testing.T) {
	t.Chdir(t.TempDir())
	d, _ := filepath.EvalSymlinks(".")
	d, _ = filepath.Abs(d)
	library(t, "fakes/libcuda.so.1", "libcuda.so.1", "")
	library(t, "x/libx.so.1", "libx.so.1", d+"/fakes", "fakes/libcuda.so.1")
	library(t, "file.so", "", d+"/x", "x/libx.so.1")
	for _, f := range examine(t, []string{"runpath", "audit"}, "--stub", "fakes", "--driver-link", "/drv", "file.so")["file.so"] {
		if f.ID == finding.StubLoaded {
			follow(t, f.Remedy)
			if got := shownList(t, "x/libx.so.1"); got != "/drv" {
				t.Errorf("%s leaves %q", f.Fix, got)
			}
			return
		}
	}
	t.Error("not reported")
}

// What explain says of a stub, and of a missing driver link, changes what it says when it is followed.
func TestRemediesOfExplain(t *testing.T) {
	t.Chdir(t.TempDir())
	d, _ := os.Getwd()
	library(t, "stubs/libcuda.so.1", "libcuda.so.1", "")
	library(t, "driver/libcuda.so.1", "libcuda.so.1", "")
	verdict := func() (v struct {
		Origin, Text string
		remedy.Remedy
	}) {
		out := onlyStdout("runpath", "explain", "--json", "--driver-link", d+"/driver", "file.so")
		var doc struct {
			Files []struct{ Driver []json.RawMessage }
		}
		if err := json.Unmarshal(out, &doc); err != nil || len(doc.Files) != 1 || len(doc.Files[0].Driver) != 1 {
			t.Fatalf("%v: %s", err, out)
		}
		json.Unmarshal(doc.Files[0].Driver[0], &v)
		return v
	}
	for _, list := range []string{d + "/stubs", "/nothing"} {
		library(t, "file.so", "", list, "stubs/libcuda.so.1")
		before := verdict()
		if before.Command == nil || before.Fix == "" {
			t.Fatalf("%s: no command to follow: %+v", list, before)
		}
		follow(t, before.Remedy)
		if after := verdict(); after.Origin != "driver" || after.Command != nil {
			t.Errorf("%s, after %s: %+v", list, before.Fix, after)
		}
	}
}
