package starts

import (
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/process"
	"cuda-runpath/tests/tinyelf"
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

func (s *stage) put(name string, content any) {
	s.Helper()
	tinyelf.Put(s, s.dir+name, content)
}

func lib(soname string) tinyelf.Object {
	return tinyelf.Object{Stack: elf.PF_R | elf.PF_W}.With(elf.DT_SONAME, soname)
}

func prog(needed ...string) tinyelf.Object {
	return tinyelf.Object{Interp: interp, Stack: elf.PF_R | elf.PF_W}.Needs(needed...)
}

func (s *stage) begin(file string, env loader.Environment) *process.State {
	s.Helper()
	l, err := loader.New(loader.Options{Root: s.dir, Opened: true, Environment: env})
	if err != nil {
		s.Fatal(err)
	}
	state, err := Begin(l, file, Wrappers)
	if err != nil {
		s.Fatal(err)
	}
	return state
}

// in says what is in a process that was found, the program and its loader left out.
func in(s *process.State) string {
	var names []string
	for _, o := range s.Objects[1:] {
		names = append(names, o.Path)
	}
	return strings.Join(names, " ")
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
		if got := fmt.Sprint(state.Start.File, " ", state.Start.Via, " ", state.LibraryPath, " ", in(state)); got != want {
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
			if got := Behind(l, "/p", Wrappers).File; got != c.want {
				t.Errorf("%+v, %d bytes before: %q", c, before, got)
			}
		}
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
	if got := in(state); got != want || state.Start.File != "/venv/bin/python" || len(state.Failed) > 0 {
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
	names := func(all []process.Start) (out []string) {
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
	if got := in(state); got != site+"/base/_c.so "+site+"/base/lib/libx.so" || len(state.Failed) != 1 || state.Failed[0].Why != "libcuda.so.1, which "+site+"/vision/lib/ops.so needs, is not found" {
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

// A link among the packages leads below the root, also where a link on the way to it leads elsewhere on this machine.
func TestPlaceBehindALinkedDirectory(t *testing.T) {
	s := newStage(t)
	away := t.TempDir() // is on this machine, and below the root another directory
	const packages = "/python3.12/site-packages"
	s.put("/venv/bin/python3.12", prog())
	s.put(away+packages+"/own.py", "")
	s.put("/store/torch/_C.so", lib("PyInit__C"))
	if err := errors.Join(os.Symlink(away, s.dir+"/venv/lib"), os.Symlink("/store/torch", s.dir+away+packages+"/torch")); err != nil {
		t.Fatal(err)
	}
	l, err := loader.New(loader.Options{Root: s.dir})
	if err != nil {
		t.Fatal(err)
	}
	p, err := PlaceOf(t.Context(), l, "/venv")
	if err != nil {
		t.Fatal(err)
	}
	var opened []string
	for _, start := range p.Starts {
		for _, w := range start.Opens {
			opened = append(opened, w.Name)
		}
	}
	if !slices.Equal(opened, []string{"/store/torch/_C.so"}) {
		t.Errorf("%q", opened)
	}
}

// Of many scripts' modules each is read once: a tree's scripts import the same thousands.
func TestModulesAreReadOnce(t *testing.T) {
	s := newStage(t)
	const site = "/venv/lib/python3.12/site-packages"
	s.put("/venv/bin/python3.12", prog())
	for _, name := range []string{"a", "b"} {
		s.put("/venv/bin/"+name, "#!/venv/bin/python3.12\nimport m\n")
	}
	s.put(site+"/m.py", "import c\nif x:\n    import d\n")
	s.put(site+"/c.so", lib("PyInit_c"))
	s.put(site+"/d.so", lib("PyInit_d"))
	l, err := loader.New(loader.Options{Root: s.dir})
	if err != nil {
		t.Fatal(err)
	}
	var kept Modules
	if got := kept.Behind(l, "/venv/bin/a", Wrappers).Opens; len(got) != 1 || got[0].Name != site+"/c.so" {
		t.Fatalf("%+v", got)
	}
	s.put(site+"/m.py", "import d\n")
	if got := kept.Behind(l, "/venv/bin/b", Wrappers).Opens; len(got) != 1 || got[0].Name != site+"/c.so" {
		t.Errorf("read again: %+v", got)
	}
	if got := Behind(l, "/venv/bin/b", Wrappers).Opens; len(got) != 1 || got[0].Name != site+"/d.so" {
		t.Errorf("one file alone: %+v", got)
	}
}

// Of what a .pth file names outside the environment only what Python can import is looked at, each directory once, and
// of the root nothing; where a name is a link below another root, it leads to what is there.
func TestPlaceOfWhatAPathFileNames(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, c := range []struct{ pth, starts, left string }{
		{"/\n//./\n", "", ""},
		{"/src\n/src/./\n/other\n", "/src/m.so /src/pkg/_c.so /src/pkg/sub/deep/d.so", ""},
		{"/linked\n", "/src/m.so /src/pkg/_c.so /src/pkg/sub/deep/d.so", ""},
		{"/venv\n/venv/lib\n", "", ""},
		{"/many\n/src\n", "", ".pth files name directories with more than 20000 names; not examined: /many and 1 other directories"},
	} {
		s := newStage(t)
		const site = "/venv/lib/python3.12/site-packages"
		module := lib("PyInit_c")
		s.put("/venv/pyvenv.cfg", "home = /py/bin\n")
		s.put("/venv/bin/python3.12", prog())
		s.put(site+"/x.pth", c.pth)
		s.put("/src/m.so", module)
		s.put("/src/program", prog())
		s.put("/src/pkg/__init__.py", "from . import _c\n")
		s.put("/src/pkg/_c.so", module)
		s.put("/src/pkg/sub/__init__.py", "")
		s.put("/src/pkg/sub/deep/d.so", module)
		s.put("/src/data/sets/e.so", module)
		s.put("/src/.hidden/e.so", module)
		os.Symlink("/src", s.dir+"/linked")
		os.Symlink("../src", s.dir+"/src/again")
		if c.left != "" {
			os.Mkdir(s.dir+"/many", 0o755)
			for i := range 20001 {
				os.Symlink("gone", fmt.Sprintf("%s/many/%d", s.dir, i))
			}
		}
		l, err := loader.New(loader.Options{Root: s.dir})
		if err != nil {
			t.Fatal(err)
		}
		p, err := PlaceOf(t.Context(), l, "/venv")
		if err != nil {
			t.Fatal(err)
		}
		var opened []string
		for _, start := range p.Starts {
			for _, w := range start.Opens {
				opened = append(opened, w.Name)
			}
			if start.Opens == nil && start.File != "/venv/bin/python3.12" {
				opened = append(opened, start.Name())
			}
		}
		slices.Sort(opened)
		if got := strings.Join(slices.Compact(opened), " "); got != c.starts || p.Left != c.left {
			t.Errorf("%q: %s, %q", c.pth, got, p.Left)
		}
	}
}

// What CUDA heeds of the environment is the start's: what a wrapper sets, takes away or empties, beside what this process has.
func TestCUDAsVariablesOfAWrapper(t *testing.T) {
	t.Setenv("CUDA_VISIBLE_DEVICES", "-1")
	l, err := loader.New(loader.Options{})
	if err != nil {
		t.Fatal(err)
	}
	file := path.Join(t.TempDir(), "app")
	for text, want := range map[string]map[string]string{
		"exec /bin/true\n": {},
		"export CUDA_VISIBLE_DEVICES=0 CUDA_DISABLE_PTX_JIT=1 CUDA_HOME=/x\nexec /bin/true\n": {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DISABLE_PTX_JIT": "1"},
		"unset CUDA_VISIBLE_DEVICES\nexec /bin/true\n":                                        {"CUDA_VISIBLE_DEVICES": ""},
		"CUDA_VISIBLE_DEVICES= LD_LIBRARY_PATH= exec /bin/true\n":                             {"CUDA_VISIBLE_DEVICES": ""},
		"export CUDA_VISIBLE_DEVICES=-1\nexec /bin/true\n":                                    {},
		"exec env -i A=b /bin/true\n":                                                         {"CUDA_VISIBLE_DEVICES": ""},
	} {
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
		if got := Behind(l, file, Wrappers); got.File != "/bin/true" || !maps.Equal(got.Set, want) {
			t.Errorf("%s%s, %q", text, got.File, got.Set)
		}
	}
}
