package explain

import (
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/gpucode"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/process"
	"cuda-runpath/pkg/resolution"
	"cuda-runpath/tests/tinyelf"
)

func lib(soname string, needed ...string) tinyelf.Object {
	return tinyelf.Object{}.With(elf.DT_SONAME, soname).Needs(needed...)
}

// load puts files into a root and loads /p in it.
func load(t *testing.T, files map[string]tinyelf.Object) *process.State {
	t.Helper()
	return loadFrom(t, "/p", files)
}

// loadFrom is load for another file.
func loadFrom(t *testing.T, file string, files map[string]tinyelf.Object) *process.State {
	t.Helper()
	root := t.TempDir()
	for name, o := range files {
		os.MkdirAll(filepath.Dir(root+name), 0o755)
		if err := os.WriteFile(root+name, o.Bytes(), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	l, err := loader.New(loader.Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	s, err := process.Start{File: file}.Begin(l)
	if err != nil {
		t.Fatal(err)
	}
	cases[s] = New(l, Options{})
	return s
}

// cases are the systems of loads.
var cases = map[*process.State]*System{}

func caseOf(s *process.State) *Case { return cases[s].Case(s) }

// problems returns what is concluded of a load itself, but for the driver's libraries.
func problems(c *Case) []finding.Finding {
	return slices.DeleteFunc(c.Conclusions(), func(f finding.Finding) bool {
		return f.Driver || f.ID == finding.OpenFails || f.ID != finding.RelativeNeeded && !f.OfTheLoad()
	})
}

func program(list string, tag elf.DynTag, needed ...string) tinyelf.Object {
	p := tinyelf.Object{Interp: "/lib64/ld-linux-x86-64.so.2"}.Needs(needed...)
	if list != "" {
		p = p.With(tag, list)
	}
	return p
}

// What is said of libcuda.so.1, by where it is and who asks for it.
func TestVerdicts(t *testing.T) {
	const cuda, link = driver.LibCUDA, driver.Link
	for _, c := range []struct {
		name    string
		files   map[string]tinyelf.Object
		origin  Origin
		good    bool
		command string // of the remedy
	}{
		{"through the driver link", map[string]tinyelf.Object{"/p": program(link, elf.DT_RUNPATH, cuda), link + "/" + cuda: lib(cuda)}, FromDriver, true, ""},
		{"a stub", map[string]tinyelf.Object{"/p": program("/cuda/stubs", elf.DT_RUNPATH, cuda), "/cuda/stubs/" + cuda: lib(cuda)}, FromStub, false, "stubReplace"},
		{"no driver on this machine", map[string]tinyelf.Object{"/p": program(link, elf.DT_RUNPATH, cuda)}, FromNowhere, false, ""},
		{"no driver link", map[string]tinyelf.Object{"/p": program("", 0, cuda)}, FromNowhere, false, "autoAddDriverRunpath"},
		{"the program's DT_RPATH counts for its libraries", map[string]tinyelf.Object{"/p": program("/l:"+link, elf.DT_RPATH, "liba.so"), "/l/liba.so": lib("liba.so", cuda)}, FromNowhere, false, ""},
		{"its DT_RUNPATH does not", map[string]tinyelf.Object{"/p": program("/l:"+link, elf.DT_RUNPATH, "liba.so"), "/l/liba.so": lib("liba.so", cuda)}, FromNowhere, false, "autoAddDriverRunpath"},
		{"from a store", map[string]tinyelf.Object{"/p": program("/nix/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-driver/lib", elf.DT_RUNPATH, cuda),
			"/nix/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-driver/lib/" + cuda: lib(cuda)}, FromOther, false, ""},
		{"in a default directory", map[string]tinyelf.Object{"/p": program("", 0, cuda), "/usr/lib64/" + cuda: lib(cuda)}, FromDriver, true, ""},
		{"needed by a path", map[string]tinyelf.Object{"/p": program(link, elf.DT_RUNPATH, "cuda/"+cuda)}, FromNowhere, false, "runpath"},
	} {
		s := load(t, c.files)
		all := caseOf(s).Verdicts()
		if len(all) != 1 {
			t.Errorf("%s: %d verdicts", c.name, len(all))
			continue
		}
		v, command := all[0], ""
		if v.Command != nil {
			command = v.Command[0]
		}
		if v.Origin != c.origin || v.Good != c.good || command != c.command || v.Whole() != "" && !strings.Contains(v.Line(), v.Whole()) {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
}

// A library of the host's driver that lacks something is not edited, whoever asks for it: not for what comes with the driver (WSL's
// libcuda.so.1 needs libdxcore.so), nor for anything else.
func TestHostsDriverIsNotEdited(t *testing.T) {
	const at = "/usr/lib/wsl/lib/"
	s := load(t, map[string]tinyelf.Object{"/p": program(at, elf.DT_RUNPATH, driver.LibCUDA), at + driver.LibCUDA: lib(driver.LibCUDA, "libdxcore.so", "libother.so"), "/o/libother.so": lib("libother.so")})
	its := caseOf(s)
	its.Provider = func(name, _ string, fits func(string) bool) string {
		if name == "libother.so" && fits("/o/libother.so") {
			return "/o/libother.so"
		}
		return ""
	}
	said := 0
	for _, p := range problems(its) {
		if p.ID == finding.NoInterpreter { // the program's
			continue
		}
		if said++; p.Command != nil || !strings.Contains(p.Advice, "which is not edited") {
			t.Errorf("%+v", p.Remedy)
		}
	}
	for _, v := range its.Verdicts() {
		if v.Soname == "libdxcore.so" {
			if said++; v.Command != nil || !strings.Contains(v.Advice, "which is not edited") {
				t.Errorf("%+v", v.Remedy)
			}
		}
	}
	if said != 2 {
		t.Errorf("%d remedies", said)
	}
}

// A compat package of a store is a package, whose author adds the hook; the host's driver in a store is nobody's to edit.
func TestCompatPackageInAStore(t *testing.T) {
	const store = "/nix/store/00000000000000000000000000000000-"
	for _, nix := range []bool{false, true} {
		for at, want := range map[string]string{
			store + "cuda_compat-12.9/compat": "add autoAddDriverRunpath to nativeBuildInputs of cuda_compat's package",
			store + "nvidia-x11-580/lib":      "the host's driver's, which is not edited",
		} {
			its := caseOf(load(t, map[string]tinyelf.Object{"/p": program(at, elf.DT_RUNPATH, driver.LibCUDA), at + "/" + driver.LibCUDA: lib(driver.LibCUDA, "libnvrm_gpu.so")}))
			its.Nix = nix
			for _, v := range its.Verdicts() {
				if v.Soname == "libnvrm_gpu.so" && (v.Command != nil || !strings.Contains(v.Advice, want) || strings.HasPrefix(v.Advice, ";")) {
					t.Errorf("%s, %v: %+v", at, nix, v.Remedy)
				}
			}
		}
	}
}

func TestFindAndWays(t *testing.T) {
	s := load(t, map[string]tinyelf.Object{"/p": program("/l", elf.DT_RPATH, "liba.so", "libc.so"), "/l/liba.so": lib("liba.so", "libb.so"), "/l/libb.so": lib("libb.so"), "/l/libc.so": lib("libc.so")})
	b := s.Find("libb.so")
	if !b.Found() || b.Path != "/l/libb.so" {
		t.Fatalf("%+v", b)
	}
	var on []string
	for _, o := range s.Objects {
		if caseOf(s).Ways(b)[o] {
			on = append(on, o.Path)
		}
	}
	if !slices.Equal(on, []string{"/p", "/l/liba.so", "/l/libb.so"}) {
		t.Errorf("%q", on)
	}
	f := Describe(caseOf(s))
	if len(f.Libraries) != 3 || f.Missing != 0 || !strings.Contains(f.Error, "ld-linux") || f.Tag != "DT_RPATH" {
		t.Errorf("%+v", f)
	}
	if f.Only(b); len(f.Libraries) != 1 || *f.Libraries[0].NeededBy != "/l/liba.so" || *f.Libraries[0].Entry != "/l" {
		t.Errorf("%+v", f.Libraries)
	}
	if o := s.Find("libnone.so"); o.Found() || o.Cause != loader.DlopenAsked {
		t.Errorf("%+v", o)
	}
}

func TestNoteThatNamesAStub(t *testing.T) {
	s := load(t, map[string]tinyelf.Object{"/p": program("", 0, driver.LibCUDA)})
	for place, want := range map[resolution.Place]string{
		"=/cuda/stubs/libcuda.so.1": "look for libcuda.so.1 at /cuda/stubs/libcuda.so.1, a stub",
		"?/cuda/stubs":              "look for libcuda.so.1 in /cuda/stubs, a directory of stubs",
	} {
		s.Main.File.Note = resolution.Note{{Name: driver.LibCUDA, Places: []resolution.Place{place}}}
		all := caseOf(s).note(s.Main)
		if len(all) != 1 || all[0].ID != finding.NoteNamesStub || !strings.HasSuffix(all[0].Message, want) {
			t.Errorf("%s: %+v", place, all)
		}
	}
}

// A place that the run path does not have is one of a run path of before, also where nothing is there yet.
func TestNoteOfAnotherRunPath(t *testing.T) {
	s := load(t, map[string]tinyelf.Object{"/p": program("/gone:/l", elf.DT_RUNPATH, "liba.so"), "/l/liba.so": lib("liba.so")})
	for place, want := range map[resolution.Place]string{
		"=/l/liba.so":      "",
		"?/gone":           "",
		"?/l":              "",
		"?/none":           "lets it look for liba.so in /none, which is not in the run path",
		"=/none/liba.so":   "lets it look for liba.so at /none/liba.so, which the run path does not lead to",
		"=/l/../l/liba.so": "lets it look for liba.so at /l/../l/liba.so, which the run path does not lead to",
		"neither":          "",
	} {
		s.Main.File.Note = resolution.Note{{Name: "liba.so", Places: []resolution.Place{place, "=/l/liba.so"}}}
		all := caseOf(s).note(s.Main)
		if want == "" && len(all) > 0 || want != "" && (len(all) != 1 || all[0].ID != finding.StaleNote || !strings.HasSuffix(all[0].Message, want)) {
			t.Errorf("%s: %+v", place, all)
		}
	}
}

// A library of a store that names no loader: which glibc its program has is not known, and nothing of
// it is missing; it has no default directories.
func TestLibraryInAStoreWithoutALoader(t *testing.T) {
	const dir = "/nix/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-nvidia-cublas/lib"
	s := loadFrom(t, dir+"/python/libcublas.so.12", map[string]tinyelf.Object{
		dir + "/python/libcublas.so.12": lib("libcublas.so.12", "libc.so.6", "ld-linux-x86-64.so.2", "libcublasLt.so.12"),
		dir + "/libcublasLt.so.12":      lib("libcublasLt.so.12"),
	})
	f := Describe(caseOf(s))
	var got []string
	for _, l := range f.Libraries {
		where := "nowhere"
		if l.Path != nil {
			where = *l.Path
		}
		got = append(got, l.Soname+" "+where+" "+l.Rule)
	}
	want := []string{"libc.so.6 libc.so.6 the program's glibc", "ld-linux-x86-64.so.2 ld-linux-x86-64.so.2 the loader itself", "libcublasLt.so.12 nowhere not found"}
	if !slices.Equal(got, want) || f.Missing != 1 || f.Interpreter != "" || f.Loader != "glibc" {
		t.Errorf("%q, %d missing, %q %q", got, f.Missing, f.Interpreter, f.Loader)
	}
	for _, p := range problems(caseOf(s)) {
		if p.Library != "libcublasLt.so.12" {
			t.Errorf("%s", p.Message)
		}
	}
}

// What is wrong with a load, of which library, and which file the remedy is for.
func TestProblems(t *testing.T) {
	const glibc = "/nix/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-glibc-2.40/lib"
	ld := lib("ld-linux-x86-64.so.2")
	asks, old := lib("p", "liba.so").With(elf.DT_RUNPATH, "/l"), lib("liba.so")
	asks.Requires, old.Defines = []tinyelf.Requirement{{Library: "liba.so", Version: "A_2"}}, []string{"A_1"}
	nix := tinyelf.Object{Interp: glibc + "/ld-linux-x86-64.so.2"}
	for name, c := range map[string]struct {
		files map[string]tinyelf.Object
		want  []string
	}{
		"a program from a store whose loader is not here": {map[string]tinyelf.Object{"/p": nix.Needs("libc.so.6", "libx.so")},
			[]string{"missing-interpreter  of /p", "unresolved-library libx.so of the file"}},
		"a program from elsewhere whose loader is not here": {map[string]tinyelf.Object{"/p": program("", 0, "libc.so.6", "libx.so")},
			[]string{"missing-interpreter  of /p", "unresolved-library libx.so of the file"}},
		"a library, and no loader": {map[string]tinyelf.Object{"/p": lib("p", "libc.so.6", "libx.so")},
			[]string{"unresolved-library libx.so of the file"}},
		"a library that is too old, and no loader": {map[string]tinyelf.Object{"/p": asks, "/l/liba.so": old},
			[]string{"missing-version liba.so of the file"}},
		"missing": {map[string]tinyelf.Object{"/p": program("", 0, "libx.so"), "/lib64/ld-linux-x86-64.so.2": ld},
			[]string{"unresolved-library libx.so of the file"}},
		"missing for a library that has the program's DT_RPATH": {map[string]tinyelf.Object{"/p": program("/l", elf.DT_RPATH, "liba.so"), "/l/liba.so": lib("liba.so", "libx.so"), "/lib64/ld-linux-x86-64.so.2": ld},
			[]string{"unresolved-dependency libx.so of the file"}},
		"missing for a library by itself": {map[string]tinyelf.Object{"/p": program("/l", elf.DT_RUNPATH, "liba.so"), "/l/liba.so": lib("liba.so", "libx.so"), "/lib64/ld-linux-x86-64.so.2": ld},
			[]string{"unresolved-dependency libx.so of /l/liba.so"}},
		"beside what is loaded": {map[string]tinyelf.Object{"/p": program("/l/libb.so:/l", elf.DT_RUNPATH, "liba.so"), "/l/liba.so": lib("liba.so", "libb.so"), "/l/libb.so": lib("libb.so"), "/lib64/ld-linux-x86-64.so.2": ld},
			[]string{"unresolved-dependency libb.so runpath add /l"}},
		"by a path": {map[string]tinyelf.Object{"/p": program("", 0, "sub/libx.so"), "/lib64/ld-linux-x86-64.so.2": ld},
			[]string{"relative-needed sub/libx.so of the file"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := load(t, c.files)
			var got []string
			for _, p := range problems(caseOf(s)) {
				what := p.ID + " "
				what += p.Library
				switch {
				case p.Library == "":
					what += " of /p"
				case len(p.Command) > 3:
					what += " " + strings.Join(p.Command[:3], " ")
				case strings.Contains(p.Whole(), "the run path of /l/liba.so"):
					what += " of /l/liba.so"
				default:
					what += " of the file"
				}
				got = append(got, what)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// What fails only where it is opened later stops no program.
func TestLibraryThatDlopenFailsAt(t *testing.T) {
	bad := lib("libbad.so")
	bad.Type = elf.ET_EXEC
	s := load(t, map[string]tinyelf.Object{"/p": program("/l", elf.DT_RUNPATH), "/l/libbad.so": bad, "/lib64/ld-linux-x86-64.so.2": lib("ld-linux-x86-64.so.2")})
	if o := s.Open("libbad.so", s.Main, loader.DlopenAsked, "").To; o.Err == "" {
		t.Fatalf("%+v", o)
	}
	if all := problems(caseOf(s)); len(all) > 0 {
		t.Errorf("%+v", all)
	}
}

// Where a library may be that is missing: beside the file, above it, in NVIDIA's wheels; it has to fit.
func TestBesideAFile(t *testing.T) {
	s := loadFrom(t, "/v/site/a/l.so", map[string]tinyelf.Object{"/v/site/a/l.so": lib("l.so"), "/v/site/nvidia/cublas/lib/libcublas.so": lib("libcublas.so"),
		"/v/site/other/lib/libo.so": lib("libo.so"), "/v/site/a/libown.so": lib("libown.so"), "/named/libn.so": lib("libn.so"),
		"/v/site/a/lib/libnear.so": lib("libnear.so"), "/v/site/0/lib/libnear.so": lib("libnear.so"), "/v/site/0/libown.so": lib("libown.so"),
		"/v/site/open/libopen.so": lib("libopen.so"), "/v/site/theirs/lib/libtheirs.so": lib("libtheirs.so"),
		"/v/site/sticky/libsticky.so": lib("libsticky.so"), "/v/site/sticky/lib/libmine.so": lib("libmine.so"),
		"/far/libours.so": lib("libours.so"), "/away/libfar.so": lib("libfar.so")})
	its := caseOf(s)
	root := strings.TrimSuffix(its.Loader.Host("/"), "/")
	its.Provider = Among(its.Loader, []string{root + "/named/x"})
	if err := errors.Join(os.Chmod(root+"/v/site/open", 0o777), os.Chmod(root+"/v/site/sticky", 0o777|os.ModeSticky)); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"libcublas.so": "/v/site/nvidia/cublas/lib/libcublas.so", "libo.so": "/v/site/other/lib/libo.so",
		"libown.so": "/v/site/a/libown.so", "libn.so": "/named/libn.so", "libnone.so": "", "libnear.so": "/v/site/a/lib/libnear.so", "libopen.so": "",
		// Into a sticky directory anybody puts files; what is there of one's own nobody exchanges.
		"libsticky.so": "", "libmine.so": "/v/site/sticky/lib/libmine.so",
		"libours.so": "/v/site/ours/libours.so", "libfar.so": "/v/site/ourstoo/libfar.so"}
	if err := errors.Join(os.Symlink("../../far", root+"/v/site/ours"), os.Symlink("../../away", root+"/v/site/ourstoo")); err != nil {
		t.Fatal(err)
	}
	// Who owns a directory can exchange what is below, who owns a link where it leads.
	if err := errors.Join(os.Chown(root+"/v/site/theirs", 12345, -1), os.Lchown(root+"/v/site/ourstoo", 12345, -1)); err == nil {
		want["libtheirs.so"], want["libfar.so"] = "", ""
	}
	for name, want := range want {
		if got := its.provide(name, root+"/v/site/a/l.so", func(string) bool { return true }); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		if got := its.provide(name, root+"/v/site/a/l.so", func(string) bool { return false }); got != "" {
			t.Errorf("%s does not fit: %q", name, got)
		}
	}
}

// A directory is what it leads to: a driver link to a compat package, a directory to stubs.
func TestVerdictsBehindLinks(t *testing.T) {
	const cuda = driver.LibCUDA
	for name, c := range map[string]struct {
		list, at, link, to, env string
		origin                  Origin
		fix                     string
	}{
		"a stub behind a link":                              {list: "/cuda/lib", at: "/cuda/stubs/" + cuda, link: "/cuda/lib", to: "stubs", origin: FromStub, fix: "stubReplace /p"},
		"a compat package behind the link":                  {list: driver.Link, at: "/opt/compat/" + cuda, link: driver.Link, to: "/opt/compat", origin: FromCompat},
		"the driver behind the link":                        {list: driver.Link, at: "/opt/driver/" + cuda, link: driver.Link, to: "/opt/driver", origin: FromDriver},
		"the driver's own file behind a directory of stubs": {list: "/cuda/stubs", at: driver.Link + "/" + cuda, link: "/cuda/stubs", to: driver.Link, origin: FromDriver},
		"a stub by LD_LIBRARY_PATH":                         {env: "/cuda/stubs", at: "/cuda/stubs/" + cuda, origin: FromStub, fix: "remove /cuda/stubs from LD_LIBRARY_PATH"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, o := range map[string]tinyelf.Object{"/p": program(c.list, elf.DT_RUNPATH, cuda), c.at: lib(cuda)} {
				os.MkdirAll(filepath.Dir(root+file), 0o755)
				if err := os.WriteFile(root+file, o.Bytes(), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if c.link != "" {
				os.MkdirAll(filepath.Dir(root+c.link), 0o755)
				if err := os.Symlink(c.to, root+c.link); err != nil {
					t.Fatal(err)
				}
			}
			l, err := loader.New(loader.Options{Root: root, Environment: loader.Environment{LibraryPath: c.env}})
			if err != nil {
				t.Fatal(err)
			}
			s, err := process.Start{File: "/p", Environment: l.Environment()}.Begin(l)
			if err != nil {
				t.Fatal(err)
			}
			all := New(l, Options{}).Case(s).Verdicts()
			if len(all) != 1 || all[0].Origin != c.origin || strings.ReplaceAll(all[0].Whole(), root, "") != c.fix {
				t.Errorf("%+v", all[0])
			}
		})
	}
}

// nixpkgs' glibc brings a libgcc_s.so.1 beside its libc.so.6: that one is no ambiguity, two others are.
func TestLibgccBesideLibc(t *testing.T) {
	gcc := func(data string) tinyelf.Object {
		return tinyelf.Object{Data: data}.With(elf.DT_SONAME, "libgcc_s.so.1")
	}
	for list, want := range map[string]int{"/glibc:/a": 0, "/a:/glibc": 0, "/glibc:/a:/b": 1, "/a:/b": 1} {
		s := load(t, map[string]tinyelf.Object{"/p": program(list, elf.DT_RUNPATH, "libgcc_s.so.1"), "/glibc/libc.so.6": lib("libc.so.6"),
			"/glibc/libgcc_s.so.1": gcc("glibc's"), "/a/libgcc_s.so.1": gcc("one"), "/b/libgcc_s.so.1": gcc("another")})
		n := 0
		for _, f := range caseOf(s).Conclusions() {
			if f.ID == finding.Ambiguous {
				n++
			}
		}
		if n != want {
			t.Errorf("%s: %d", list, n)
		}
	}
}

// Who has the name of a library among its strings is who opens it.
func TestFindAsksWhoHasTheName(t *testing.T) {
	a := lib("liba.so").With(elf.DT_RUNPATH, "/own")
	a.Data = "\x00libopened.so\x00"
	s := load(t, map[string]tinyelf.Object{"/p": program("/l", elf.DT_RUNPATH, "liba.so"), "/l/liba.so": a, "/own/libopened.so": lib("libopened.so")})
	if o := s.Find("libopened.so"); o.Path != "/own/libopened.so" || o.Cause != loader.DlopenString || o.NeededBy.Path != "/l/liba.so" {
		t.Errorf("%+v", o)
	}
}

func TestVersionsOfSymbols(t *testing.T) {
	a, p := lib("liba.so"), program("/l", elf.DT_RUNPATH, "liba.so")
	a.Defines = []string{"V_1"}
	p.Requires = []tinyelf.Requirement{{Library: "liba.so", Version: "V_1"}, {Library: "liba.so", Version: "V_2"}}
	var f File
	if unknown := (Symbols{Versions: true}).Answer(&f, load(t, map[string]tinyelf.Object{"/p": p, "/l/liba.so": a}).Load); unknown != nil || len(f.Versions) != 2 || f.Unused != nil || f.Undefined != nil {
		t.Fatalf("%q, %+v", unknown, f)
	}
	if v := f.Versions[0]; v.Version != "V_1" || v.From == nil || *v.From != "/l/liba.so" || v.Path != "/p" {
		t.Errorf("%+v", v)
	}
	if v := f.Versions[1]; v.Version != "V_2" || v.From != nil {
		t.Errorf("%+v", v)
	}
}

// What is said of a file's GPU code, by what was asked for.
func TestGPUCodeThatIsAskedFor(t *testing.T) {
	entry := func(k gpucode.Kind, c gpucode.Capability) gpucode.Entry {
		return gpucode.Entry{Kind: k, Arch: gpucode.Arch{Capability: c}, Version: gpucode.Version{Major: 8, Minor: 5}, Size: 5000, Unpacked: 5000}
	}
	f := &gpucode.File{Containers: []gpucode.Container{{Section: ".nv_fatbin", Entries: []gpucode.Entry{entry(gpucode.Cubin, 80), entry(gpucode.PTX, 80)}}}}
	for targets, want := range map[string]string{
		"8.0":        "",
		"9.0":        finding.GPUCodeJIT + " " + finding.GPUCodeUnasked,
		"compute_90": finding.GPUCodeUnasked,
		"7.5":        finding.GPUCodeMissing + " " + finding.GPUCodeUnasked,
		"8.0+PTX":    "",
	} {
		asked, err := gpucode.ParseTargets(targets)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range Code(f, asked, gpucode.Version{}) {
			got = append(got, p.ID)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", targets, got, want)
		}
	}
	asked, _ := gpucode.ParseTargets("9.0")
	if all := Code(f, asked, gpucode.Version{Major: 11, Minor: 8}); all[0].Answer != gpucode.ErrUnsupportedPTXVersion {
		t.Errorf("PTX newer than the driver: %+v", all[0])
	}
}

// A library of the driver that nothing asks for is no finding, and nothing is to be done about it.
func TestWhatNothingAsksFor(t *testing.T) {
	for name, c := range map[string]struct {
		needs []string
		says  string
		fix   bool
	}{
		"without CUDA":     {[]string{"libother.so.1"}, "libcuda.so.1 (if p opened it with dlopen): nowhere. Nothing that is loaded asks for it.", false},
		"with the toolkit": {[]string{"libcudart.so.12"}, "libcuda.so.1 (if p opened it with dlopen): nowhere. It comes with the host's driver", true},
	} {
		s := load(t, map[string]tinyelf.Object{"/p": program("/l", elf.DT_RUNPATH, c.needs...), "/l/libcudart.so.12": tinyelf.Object{}.With(elf.DT_SONAME, "libcudart.so.12")})
		its := caseOf(s)
		v := its.Verdict(s.Find(driver.LibCUDA))
		if !strings.HasPrefix(v.Text, c.says) || (v.Whole() != "") != c.fix || (v.Kind != "") != c.fix {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// A compat package that nothing gave a driver link: of its libcuda.so.1's own needs, those that the driver link has are missed for sure.
func TestCompatWithoutADriverLink(t *testing.T) {
	compat := lib("libcuda.so.1", "libnvrm_gpu.so", "libnvrm_mem.so")
	files := map[string]tinyelf.Object{"/p": program("/cuda_compat/compat", elf.DT_RUNPATH, "libcuda.so.1"), "/cuda_compat/compat/libcuda.so.1": compat,
		"/lib64/ld-linux-x86-64.so.2": lib("ld-linux-x86-64.so.2"), "/run/opengl-driver/lib/libnvrm_gpu.so": lib("libnvrm_gpu.so")}
	said := map[string]finding.Severity{}
	for _, f := range caseOf(load(t, files)).Conclusions() {
		if f.Driver {
			said[f.Library] = f.Severity
		}
	}
	if said["libnvrm_gpu.so"] != finding.Error || said["libnvrm_mem.so"] == finding.Error {
		t.Errorf("%v", said)
	}
}
