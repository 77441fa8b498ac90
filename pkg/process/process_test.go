package process

import (
	"debug/elf"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/loader/tinyelf"
)

const interp = "/lib64/ld-linux-x86-64.so.2"

// stage is a tree of files, and a loader below it.
type stage struct {
	*testing.T
	dir string
}

func newStage(t *testing.T) *stage {
	s := &stage{t, t.TempDir()}
	s.put(interp, lib("ld-linux-x86-64.so.2"))
	return s
}

func lib(soname string) tinyelf.Object { return tinyelf.Object{}.With(elf.DT_SONAME, soname) }

func prog(needed ...string) tinyelf.Object { return tinyelf.Object{Interp: interp}.Needs(needed...) }

func (s *stage) put(name string, content any) {
	s.Helper()
	b, ok := []byte(nil), false
	if o, is := content.(tinyelf.Object); is {
		if o.Stack == 0 {
			o.Stack = elf.PF_R | elf.PF_W
		}
		b, ok = o.Bytes(), true
	}
	if text, is := content.(string); is {
		b, ok = []byte(text), true
	}
	if !ok {
		s.Fatalf("%T", content)
	}
	at := s.dir + name
	os.MkdirAll(filepath.Dir(at), 0o755)
	if err := os.WriteFile(at, b, 0o755); err != nil {
		s.Fatal(err)
	}
}

func (s *stage) begin(file string, env loader.Environment) *State {
	s.Helper()
	l, err := loader.New(loader.Options{Root: s.dir, Opened: true, Environment: env})
	if err != nil {
		s.Fatal(err)
	}
	state, err := Behind(l, file, false).Begin(l)
	if err != nil {
		s.Fatal(err)
	}
	return state
}

// in says what is in a process, the program and its loader left out.
func (s *State) in() string {
	var names []string
	for _, o := range s.Objects[1:] {
		what := o.Path
		if !o.Found() {
			what = "-" + o.Name
		}
		names = append(names, what)
	}
	return strings.Join(names, " ")
}

func TestOpenLeavesNothing(t *testing.T) {
	for _, c := range []struct {
		what  string
		files map[string]any
		opens string // by the program, in this order
		env   string
		want  string // what is in the process at the end
		fails string // why each call failed, one of them each
	}{
		{"a library is missing", map[string]any{
			"/a/libpa.so": lib("libpa.so").Needs("libx.so", "libgone.so").With(elf.DT_RUNPATH, "/x1"),
			"/a/libpb.so": lib("libpb.so").Needs("libx.so").With(elf.DT_RUNPATH, "/x2"),
			"/x1/libx.so": lib("libx.so"), "/x2/libx.so": lib("libx.so"),
		}, "libpa.so libpb.so", "", "/a/libpb.so /x2/libx.so", "libgone.so, which /a/libpa.so needs, is not found"},
		{"what was there before stays, under the name too by which it was matched", map[string]any{
			"/a/libpa.so": lib("libpa.so").Needs("libpb.so", "/a/../a/libx.so", "libgone.so"),
			"/a/libx.so":  lib("other.so"), "/a/libpb.so": lib("libpb.so"), "/b/libx.so": lib("libx.so"),
		}, "/a/libx.so libpa.so libx.so libpb.so", "", "/a/libx.so /a/libpb.so", "libgone.so, which /a/libpa.so needs, is not found"},
		{"a version is missing", map[string]any{
			"/a/libpa.so": tinyelf.Object{Requires: []tinyelf.Requirement{{Library: "libv.so", Version: "V_2"}}}.Needs("libv.so", "libx.so"),
			"/a/libpb.so": tinyelf.Object{Requires: []tinyelf.Requirement{{Library: "libv.so", Version: "V_1"}}}.Needs("libv.so"),
			"/a/libv.so":  tinyelf.Object{Defines: []string{"V_1"}}.With(elf.DT_SONAME, "libv.so"), "/a/libx.so": lib("libx.so"),
		}, "libpb.so libpa.so", "", "/a/libpb.so /a/libv.so", "/a/libv.so: version `V_2' not found (required by /a/libpa.so)"},
		{"one that a later call needs a version of is not at fault", map[string]any{
			"/a/libpa.so": lib("libpa.so").Needs("libv.so"),
			"/a/libpb.so": tinyelf.Object{Requires: []tinyelf.Requirement{{Library: "libv.so", Version: "V_2"}}}.Needs("libv.so"),
			"/a/libv.so":  tinyelf.Object{Defines: []string{"V_1"}}.With(elf.DT_SONAME, "libv.so"),
		}, "libpa.so libpb.so libv.so", "", "/a/libpa.so /a/libv.so", "/a/libv.so: version `V_2' not found (required by /a/libpb.so)"},
		{"DF_1_NOOPEN", map[string]any{
			"/a/libpa.so": lib("libpa.so").Needs("libx.so", "libn.so"), "/a/libx.so": lib("libx.so"),
			"/a/libn.so": tinyelf.Object{Flags1: elf.DF_1_NOOPEN},
		}, "libpa.so", "", "", "/a/libn.so: shared object cannot be dlopen()ed"},
		{"a program", map[string]any{"/a/libpa.so": lib("libpa.so").Needs("libx.so", "libn.so"), "/a/libx.so": lib("libx.so"),
			"/a/libn.so": tinyelf.Object{Flags1: elf.DF_1_PIE}},
			"libpa.so", "", "", "/a/libn.so: cannot dynamically load position-independent executable"},
		{"an auxiliary library may be missing", map[string]any{"/a/libpa.so": lib("libpa.so").With(elf.DT_AUXILIARY, "libgone.so")},
			"libpa.so", "", "/a/libpa.so -libgone.so", ""},
		{"the driver, where none is installed, is taken to be there", map[string]any{
			"/a/libpa.so": lib("libpa.so").Needs("libx.so", "libcuda.so.1").With(elf.DT_RUNPATH, "/a:/run/opengl-driver/lib"),
			"/a/libpb.so": lib("libpb.so").Needs("liby.so", "libcuda.so.1").With(elf.DT_RUNPATH, "/a"), "/a/libx.so": lib("libx.so"), "/a/liby.so": lib("liby.so"),
		}, "libpb.so libpa.so", "", "/a/libpa.so /a/libx.so -libcuda.so.1", "libcuda.so.1, which /a/libpb.so needs, is not found"},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := newStage(t)
			for name, o := range c.files {
				s.put(name, o)
			}
			s.put("/p", prog().With(elf.DT_RPATH, "/a:/b"))
			state := s.begin("/p", loader.Environment{})
			for _, name := range strings.Fields(c.opens) {
				state.Open(name, state.Main, loader.DlopenAsked, "")
			}
			fails := ""
			for _, p := range state.Failed {
				fails += p.Why
				if p.To.Fails() != p.Why || len(p.Brought) == 0 && !p.Again {
					t.Errorf("%s: %q, %v", p.Name, p.To.Fails(), p.Brought)
				}
			}
			if state.in() != c.want || fails != c.fails {
				t.Errorf("%q, fails: %q", state.in(), fails)
			}
			for _, o := range state.Objects {
				if len(o.Lacks) > 0 {
					t.Errorf("%s lacks %v", o.Path, o.Lacks)
				}
				for _, u := range o.Uses {
					if !strings.Contains(fmt.Sprint(state.in(), " /p"), u.To.Path) {
						t.Errorf("%s uses %s, which is gone", o.Path, u.To.Path)
					}
				}
			}
		})
	}
}

func TestOpenAll(t *testing.T) {
	s := newStage(t)
	s.put("/a/libpa.so", lib("libpa.so").Needs("libx.so", "libgone.so").With(elf.DT_RUNPATH, "/x1"))
	s.put("/a/libpb.so", lib("libpb.so").Needs("libx.so").With(elf.DT_RUNPATH, "/x2"))
	s.put("/a/libpc.so", lib("libpc.so").Needs("libx.so").With(elf.DT_RUNPATH, "/x1"))
	s.put("/x1/libx.so", lib("libx.so"))
	s.put("/x2/libx.so", lib("libx.so"))
	s.put("/y/libq.so", lib(""))
	s.put("/a/libq.so", lib(""))
	p := prog().With(elf.DT_RUNPATH, "/a")
	// The linker lets "libq.so" share the end of the path: both are possible.
	p.Data = "\x00libpa.so\x00libpb.so\x00libpc.so\x00libnone.so\x00/y/libq.so\x00"
	s.put("/p", p)
	state := s.begin("/p", loader.Environment{})
	state.OpenAll(state.Likely(false), func(string) bool { return false })
	if got := state.in(); got != "/a/libpb.so /x2/libx.so /a/libpc.so /y/libq.so /a/libq.so" {
		t.Error(got)
	}
	if len(state.Failed) != 1 || state.Failed[0].Name != "libpa.so" {
		t.Errorf("%+v", state.Failed)
	}
	if !state.Touches(func(file string) bool { return file == s.dir+"/x1/libx.so" }) || state.Touches(func(file string) bool { return file == s.dir+"/none" }) {
		t.Error("it depends on a file that a call has taken back, and on no file that was never looked at")
	}
}

// A library of CUDA's tries several places for one of the driver's: what is in none of them is said once, and not where another way leads
// to it (libcupti.so.13 has four paths of libnvidia-ml.so.1; cuda-python's cydriver "/libcuda.so.1.1", the end of a path that it makes).
func TestOpenAllPlaces(t *testing.T) {
	for _, c := range []struct{ data, want string }{
		{"\x00/usr/lib64/libnvidia-ml.so.1\x00/usr/lib/nvidia/libnvidia-ml.so.1\x00", "/usr/lib64/libnvidia-ml.so.1"},
		{"\x00/usr/lib64/libnvidia-ml.so.1\x00/opt/libnvidia-ml.so.1\x00", ""},
		{"\x00/usr/lib64/libnvidia-ml.so.1\x00libnvidia-ml.so.1\x00", "libnvidia-ml.so.1"},
		{"\x00/libcuda.so.1.1\x00", ""},
	} {
		s := newStage(t)
		s.put("/opt/libnvidia-ml.so.1", lib("libnvidia-ml.so.1"))
		p := prog()
		p.Data = c.data
		s.put("/p", p)
		state := s.begin("/p", loader.Environment{})
		state.OpenAll(state.Likely(false), func(string) bool { return true })
		var failed []string
		for _, f := range state.Failed {
			failed = append(failed, f.Name)
		}
		if got := strings.Join(failed, " "); got != c.want {
			t.Errorf("%q: failed %s", c.data, got)
		}
	}
}

// What a wrapper sets is a part of the start.
func TestBehind(t *testing.T) {
	s := newStage(t)
	s.put("/lib/libx.so", lib("libx.so"))
	s.put("/e/libx.so", lib("libx.so"))
	s.put("/e/liba.so", lib("liba.so"))
	s.put("/app/bin/.p-wrapped", prog("libx.so").With(elf.DT_RUNPATH, "/lib"))
	s.put("/app/bin/p", "#! /bin/bash -e\nexport LD_LIBRARY_PATH='/e'${LD_LIBRARY_PATH:+':'}$LD_LIBRARY_PATH\nexport LD_AUDIT='/e/liba.so'\nexec -a \"$0\" \"/app/bin/.p-wrapped\"  \"$@\" \n")
	binary := prog("libc.so.6")
	binary.Strings = append(binary.Strings, tinyelf.Entry{Tag: elf.DT_SONAME, Str: "execv"})
	binary.Data = "\n\nmakeCWrapper '/app/bin/p' \\\n    --suffix 'LD_LIBRARY_PATH' ':' '/lib'\n\n"
	binary.Type = elf.ET_EXEC
	s.put("/app/bin/q", binary)
	os.Symlink("q", s.dir+"/app/bin/link")
	for file, want := range map[string]string{
		"/app/bin/.p-wrapped": "/app/bin/.p-wrapped [] g /lib/libx.so",
		"/app/bin/p":          "/app/bin/.p-wrapped [/app/bin/p] /e:g /e/libx.so",
		"/app/bin/q":          "/app/bin/.p-wrapped [/app/bin/q /app/bin/p] /e:g:/lib /e/libx.so",
		"/app/bin/link":       "/app/bin/.p-wrapped [/app/bin/link /app/bin/p] /e:g:/lib /e/libx.so",
	} {
		state := s.begin(file, loader.Environment{LibraryPath: "g"})
		if got := fmt.Sprint(state.Start.File, " ", state.Start.Via, " ", state.LibraryPath, " ", state.in()); got != want {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
		if modules := len(state.Audits); (modules == 1) != (len(state.Start.Via) > 0) {
			t.Errorf("%s: %d auditing modules", file, modules)
		}
	}
}

// A compiled wrapper is known by its constants, of a program that calls execv and needs the C library alone.
func TestCompiledWrapper(t *testing.T) {
	const text = "\nmakeCWrapper '/bin/app' \\\n"
	for _, c := range []struct{ calls, data, needed, want string }{
		{"execv", text, "libc.so.6", "/bin/app"},
		{"execv", text, "libm.so.6", "/p"},
		{"execve", text, "libc.so.6", "/p"},
		{"execv", "", "libc.so.6", "/p"},
	} {
		// Edits move the dynamic string table far behind the head that is read at once.
		for _, before := range []int{1, 20 << 10} {
			p := prog(c.needed).With(elf.DT_RUNPATH, "/"+strings.Repeat("a", before)).With(elf.DT_AUXILIARY, c.calls)
			p.Data = c.data
			s := newStage(t)
			s.put("/p", p)
			l, _ := loader.New(loader.Options{Root: s.dir})
			if got := Behind(l, "/p", false).File; got != c.want {
				t.Errorf("%+v, %d bytes before: %q", c, before, got)
			}
		}
	}
}

// A library that was preloaded in vain is opened all the same.
func TestOpenAllOfPreloaded(t *testing.T) {
	s := newStage(t)
	s.put("/a/libpa.so", lib("libpa.so"))
	s.put("/none/libpie.so", tinyelf.Object{Flags1: elf.DF_1_PIE})
	p := prog().With(elf.DT_RUNPATH, "/none")
	p.Dlopen = `[{"soname":["libpa.so"]},{"soname":["/a/libpa.so"]},{"soname":["libpie.so"]}]`
	s.put("/p", p)
	state := s.begin("/p", loader.Environment{Preload: "libpa.so:libpie.so"})
	state.OpenAll(nil, nil)
	if len(state.Failed) != 2 || state.Failed[0].Name != "libpa.so" || state.Failed[1].Name != "libpie.so" || len(state.Opened) != 1 {
		t.Errorf("%+v, %+v", state.Failed, state.Opened)
	}
}

// What a script of Python's opens, by the modules of the installation that its interpreter is of.
func TestPython(t *testing.T) {
	s := newStage(t)
	module := func(needed ...string) tinyelf.Object {
		return lib("").Needs(needed...).With(elf.DT_RUNPATH, "$ORIGIN/lib")
	}
	s.put("/py/bin/python3.12", prog())
	os.Symlink("python3.12", s.dir+"/py/bin/python3")
	s.put("/py/lib/python3.12/os.py", "")
	s.put("/py/lib/python3.12/json.py", "import inside\n")
	s.put("/py/lib/python3.12/lib-dynload/_ctypes.cpython-312-x86_64-linux-gnu.so", lib("").With(elf.DT_RUNPATH, "/ffi"))
	s.put("/py/lib/python3.12/site-packages/inside.cpython-312-x86_64-linux-gnu.so", module())
	const site = "/venv/lib/python3.12/site-packages"
	os.MkdirAll(s.dir+"/venv/bin", 0o755)
	os.Symlink("/py/bin/python3", s.dir+"/venv/bin/python")
	s.put("/venv/pyvenv.cfg", "home = /py/bin\ninclude-system-site-packages = false\n")
	s.put(site+"/a/__init__.py", "import json, inside\nfrom ._c import x\ntry:\n    from . import gone\nexcept ImportError: pass\nimport ctypes\nctypes.CDLL('/opt/libq.so', ctypes.RTLD_GLOBAL)\n")
	s.put(site+"/a/_c.cpython-312-x86_64-linux-gnu.so", module("libx.so"))
	s.put(site+"/a/_c.cpython-311-x86_64-linux-gnu.so", module("libgone.so"))
	s.put(site+"/a/gone.so", module("libgone.so"))
	s.put(site+"/a/lib/libx.so", lib("libx.so"))
	s.put(site+"/b.abi3.so", module())
	s.put(site+"/more.pth", "/more\n")
	s.put("/more/c/d.so", module())
	s.put("/opt/libq.so", lib(""))
	s.put("/ffi/libw.so", lib(""))
	s.put("/venv/bin/run", "#!/venv/bin/python\nimport sys, a, b\nfrom c import d, e\nif x:\n    import near\n    import late\n    ctypes.CDLL('libw.so')\n")
	s.put("/venv/bin/near.so", module())
	s.put(site+"/late/__init__.py", "import late.deep\n")
	s.put(site+"/late/deep.so", module())
	state := s.begin("/venv/bin/run", loader.Environment{})
	state.OpenAll(nil, nil)
	const want = site + "/a/_c.cpython-312-x86_64-linux-gnu.so " + site + "/a/lib/libx.so /py/lib/python3.12/lib-dynload/_ctypes.cpython-312-x86_64-linux-gnu.so /opt/libq.so " +
		site + "/b.abi3.so /more/c/d.so /venv/bin/near.so " + site + "/late/deep.so /ffi/libw.so"
	if got := state.in(); got != want || state.Start.File != "/venv/bin/python" || len(state.Failed) > 0 {
		t.Errorf("%s: %s\nwant %s, failed: %+v", state.Start.File, got, want, state.Failed)
	}
	sure := map[string]bool{}
	for _, w := range state.Start.Opens {
		sure[path.Base(w.Name)] = w.Sure
	}
	if !sure["_c.cpython-312-x86_64-linux-gnu.so"] || sure["near.so"] || sure["libw.so"] || sure["deep.so"] || len(sure) != 7 {
		t.Error(sure)
	}
	if !state.Opened[2].Global || state.Opened[0].Feature != site+"/a/__init__.py" {
		t.Errorf("%+v", state.Opened)
	}
}

// Of the alternatives in a note the first is opened that can be: one that is there and lacks a library is none.
func TestAlternativesOfANote(t *testing.T) {
	s := newStage(t)
	s.put("/a/libold.so", lib("libold.so").Needs("libgone.so"))
	s.put("/a/libnew.so", lib("libnew.so"))
	s.put("/a/libnext.so", lib("libnext.so"))
	p := prog().With(elf.DT_RUNPATH, "/a")
	p.Dlopen = `[{"soname":["libnone.so","libold.so","libnew.so","libnext.so"]}]`
	s.put("/p", p)
	state := s.begin("/p", loader.Environment{})
	state.OpenAll(nil, nil)
	if got := state.in(); got != "/a/libnew.so" || len(state.Failed) != 2 {
		t.Errorf("%s, %d failed", got, len(state.Failed))
	}
}

func TestNamesThatAreFollowed(t *testing.T) {
	stage := newStage(t)
	stage.put("/p", prog())
	s := stage.begin("/p", loader.Environment{})
	for _, c := range []struct {
		name, lit string
		exact     bool
		one, all  bool
	}{
		{"liba.so", driver.LibCUDA, true, true, true}, {"liba.so", "libother.so", true, false, true}, {"liba.so", "libother.so", false, false, false},
		{driver.LibCUDA, "libnvidia-ml.so.1", true, false, true}, {"", "libother.so", true, true, true}, {"", "libother.so", false, false, false},
	} {
		o := &loader.Object{Name: c.name}
		if c.name == "" {
			o = s.Main
		}
		l := files.Literal{Name: c.lit, Exact: c.exact, Driver: driver.NeedsDriver(c.lit)}
		if one, all := s.Likely(false)(o, l), s.Likely(true)(o, l); one != c.one || all != c.all {
			t.Errorf("%+v: %v, %v", c, one, all)
		}
	}
}

// Of the names of an interpreter that says most which says the version: by "python" alone, modules for another one would count.
func TestPlaceHasTheInterpreterWithAVersion(t *testing.T) {
	s := newStage(t)
	for _, name := range []string{"python", "python3", "python3.12"} {
		s.put("/env/bin/"+name, prog())
	}
	for _, version := range []string{"311", "312"} {
		s.put("/env/lib/python3."+version[1:]+"/site-packages/m.cpython-"+version+"-x86_64-linux-gnu.so", lib("PyInit_m"))
	}
	l, err := loader.New(loader.Options{Root: s.dir})
	if err != nil {
		t.Fatal(err)
	}
	p, err := PlaceOf(t.Context(), l, "/env")
	if err != nil || p.Python == nil || p.Python.Version != "python3.12" || len(p.Python.Sites) != 1 {
		t.Errorf("%v: %+v", err, p.Python)
	}
}

// A library in a package is opened behind what the package imports, which it may need; what only it brings is a part. A program
// among the modules is one too.
func TestPlace(t *testing.T) {
	s := newStage(t)
	const site = "/venv/lib/python3.12/site-packages"
	s.put("/py/bin/python3.12", prog())
	s.put("/venv/pyvenv.cfg", "home = /py/bin\n")
	os.MkdirAll(s.dir+"/venv/bin", 0o755)
	os.Symlink("/py/bin/python3.12", s.dir+"/venv/bin/python3.12")
	s.put("/venv/bin/tool", prog())
	s.put(site+"/base/__init__.py", "from base._c import *\n")
	s.put(site+"/base/_c.so", lib("").Needs("libx.so").With(elf.DT_RUNPATH, "$ORIGIN/lib"))
	s.put(site+"/base/lib/libx.so", lib("libx.so"))
	s.put(site+"/base/bin/ptxas", prog())
	s.put(site+"/vision/__init__.py", "import base\ntry:\n    import absent\nexcept ImportError: pass\n")
	s.put(site+"/vision/lib/ops.so", lib("").Needs("libx.so", "libcuda.so.1"))
	s.put(site+"/loose/lib/libplain.so", lib("").Needs("libcuda.so.1"))
	l, err := loader.New(loader.Options{Root: s.dir, Opened: true})
	if err != nil {
		t.Fatal(err)
	}
	p, err := PlaceOf(t.Context(), l, "/venv")
	if err != nil {
		t.Fatal(err)
	}
	names := func(all []Start) (out []string) {
		for _, t := range all {
			out = append(out, fmt.Sprint(t.Name(), " ", t.Part))
		}
		return out
	}
	if got := names(p.Starts); !slices.Equal(got, []string{"/venv/bin/tool false", site + "/base/bin/ptxas true"}) {
		t.Errorf("%q", got)
	}
	if got := names(p.Others); !slices.Equal(got, []string{site + "/loose/lib/libplain.so false", site + "/vision/lib/ops.so false"}) {
		t.Fatalf("%q", got)
	}
	state, err := p.Others[1].Begin(l)
	if err != nil {
		t.Fatal(err)
	}
	state.OpenAll(nil, nil)
	if got := state.in(); got != site+"/base/_c.so "+site+"/base/lib/libx.so" || len(state.Failed) != 1 || state.Failed[0].Why != "libcuda.so.1, which "+site+"/vision/lib/ops.so needs, is not found" {
		t.Errorf("%s, failed: %+v", got, state.Failed)
	}
	parts := state.Parts()
	for _, o := range state.WithFailed() {
		if want := o.Path == site+"/vision/lib/ops.so" || o.Name == "libcuda.so.1"; parts[o] != want {
			t.Errorf("%s: a part: %v", o.Name, parts[o])
		}
	}
	if lone, _ := p.Others[0].Begin(l); len(lone.Start.Opens) != 1 {
		t.Errorf("%+v", lone.Start.Opens)
	}
}
