package process

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/loader"
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

func lib(soname string) tinyelf.Object { return tinyelf.Object{}.With(elf.DT_SONAME, soname) }

func prog(needed ...string) tinyelf.Object { return tinyelf.Object{Interp: interp}.Needs(needed...) }

func (s *stage) put(name string, content any) {
	s.Helper()
	if o, is := content.(tinyelf.Object); is && o.Stack == 0 {
		o.Stack = elf.PF_R | elf.PF_W
		content = o
	}
	tinyelf.Put(s, s.dir+name, content)
}

func (s *stage) begin(file string, env loader.Environment) *State {
	s.Helper()
	l, err := loader.New(loader.Options{Root: s.dir, Opened: true, Environment: env})
	if err != nil {
		s.Fatal(err)
	}
	state, err := Start{File: file, Environment: env}.Begin(l)
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
}

// What a library opens by name is followed where it calls dlopen itself and a run path has a file of that name.
func TestOpenAllOfALibrary(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the compiler makes no libraries for x86-64")
	}
	s := newStage(t)
	build := func(name, source string) {
		at := s.dir + name
		if err := os.MkdirAll(path.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("gcc", "-shared", "-fPIC", "-nostdlib", "-O1", "-xc", "-", "-o", at, "-Wl,-rpath,/plug")
		cmd.Stdin = strings.NewReader(source)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("%v: %s", err, out)
		}
	}
	build("/l/libcalls.so", `void *dlopen(const char *, int); void *f(void) { return dlopen("libplug.so", 2), dlopen("libsys.so", 2); }`)
	build("/l/libnames.so", `const char *f(void) { return "libother.so"; }`)
	s.put("/plug/libplug.so", lib("libplug.so"))
	s.put("/plug/libother.so", lib("libother.so"))
	s.put("/lib/libsys.so", lib("libsys.so"))
	s.put("/p", prog("libcalls.so", "libnames.so").With(elf.DT_RUNPATH, "/l"))
	state := s.begin("/p", loader.Environment{})
	state.OpenAll(state.Likely(false), func(string) bool { return false })
	if got := state.in(); got != "/l/libcalls.so /l/libnames.so /plug/libplug.so" {
		t.Error(got)
	}
}

// In which order names among strings are opened, nobody knows: what fails at first and works later is opened then, and of two files
// that a name may lead to, both are told.
func TestOrders(t *testing.T) {
	s := newStage(t)
	s.put("/a/libplug.so", lib("libplug.so").Needs("libdep.so"))
	s.put("/a/libother.so", lib("libother.so").Needs("libdep.so").With(elf.DT_RUNPATH, "/x"))
	s.put("/x/libdep.so", lib("libdep.so"))
	s.put("/b/libx.so.1", lib("libx.so.1"))
	s.put("/c/libx-2.so", lib("libx.so.1"))
	p := prog().With(elf.DT_RUNPATH, "/a:/b")
	p.Data = "\x00libplug.so\x00libother.so\x00libx.so.1\x00/c/libx-2.so\x00"
	s.put("/p", p)
	state := s.begin("/p", loader.Environment{})
	state.OpenAll(state.Likely(false), func(string) bool { return false })
	if got := state.in(); got != "/a/libother.so /x/libdep.so /b/libx.so.1 /c/libx-2.so /a/libplug.so" {
		t.Error(got)
	}
	if len(state.Failed) != 1 || state.Failed[0].Name != "libplug.so" || state.Failed[0].Later == nil {
		t.Errorf("%+v", state.Failed)
	}
	var other []string
	for _, i := range state.Instead() {
		other = append(other, i.Of.Path+": "+i.Object.Path+" "+i.When)
	}
	if got := strings.Join(other, ", "); got != "/b/libx.so.1: /c/libx-2.so where /c/libx-2.so is opened first" {
		t.Error(got)
	}
	// The end of a path that is there is no name that is searched for.
	s.put("/a/libz.so", lib("libz.so"))
	s.put("/c/libz.so", lib("libz.so"))
	for data, want := range map[string]int{"\x00/c/libz.so\x00": 0, "\x00/c/libz.so\x00libz.so\x00": 1} {
		p.Data = data
		s.put("/p", p)
		state = s.begin("/p", loader.Environment{})
		state.OpenAll(state.Likely(false), func(string) bool { return false })
		if all := state.Instead(); len(all) != want {
			t.Errorf("%q: %+v", data, all)
		}
	}
	// Notes are in an order.
	p.Data, p.Dlopen = "", `[{"soname":["libplug.so"]},{"soname":["libother.so"]}]`
	s.put("/p", p)
	state = s.begin("/p", loader.Environment{})
	state.OpenAll(state.Likely(false), func(string) bool { return false })
	if got := state.in(); got != "/a/libother.so /x/libdep.so" {
		t.Error(got)
	}
}

// What a library opens by its own run path is loaded in place of what the program opens by that name, where it comes first; what it
// brings itself is there before it opens anything.
func TestOrderOfCallers(t *testing.T) {
	s := newStage(t)
	by := func(needed ...string) tinyelf.Object {
		o := lib("").Needs(needed...).With(elf.DT_RUNPATH, "/stubs")
		o.Data = "\x00libcuda.so.1\x00"
		return o
	}
	s.put("/l/libgpu.so", by())
	s.put("/l/libplug.so", by("libcuda.so.1"))
	s.put("/stubs/libcuda.so.1", lib("libcuda.so.1"))
	s.put("/driver/libcuda.so.1", lib("libcuda.so.1"))
	for _, c := range []struct{ needs, data, want string }{
		{"libgpu.so", "\x00libcuda.so.1\x00", "/driver/libcuda.so.1: /stubs/libcuda.so.1 where /l/libgpu.so opens it first"},
		{"", "\x00libplug.so\x00", ""},
	} {
		p := prog().With(elf.DT_RUNPATH, "/l:/driver")
		if c.needs != "" {
			p = p.Needs(c.needs)
		}
		p.Data = c.data
		s.put("/p", p)
		state := s.begin("/p", loader.Environment{})
		state.OpenAll(state.Likely(false), func(string) bool { return false })
		got := ""
		for _, i := range state.Instead() {
			got += i.Of.Path + ": " + i.Object.Path + " " + i.When
		}
		if got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// The levels of a processor that this machine does not have are told, where none was named.
func TestBetter(t *testing.T) {
	s := newStage(t)
	z := func(o tinyelf.Object) tinyelf.Object {
		o.Machine = elf.EM_S390
		return o
	}
	s.put("/lib/ld64.so.1", z(lib("ld64.so.1")))
	s.put("/a/libx.so.1", z(lib("libx.so.1")))
	s.put("/a/glibc-hwcaps/z13/libx.so.1", z(lib("libx.so.1")))
	p := z(tinyelf.Object{Interp: "/lib/ld64.so.1"}.Needs("libx.so.1").With(elf.DT_RUNPATH, "/a"))
	s.put("/p", p)
	for cpu, want := range map[string]string{"": "/a/glibc-hwcaps/z13/libx.so.1", "native": "/a/glibc-hwcaps/z13/libx.so.1", "z13": "", "baseline": ""} {
		l, err := loader.New(loader.Options{Root: s.dir, CPU: cpu})
		if err != nil {
			t.Fatal(err)
		}
		state, err := Start{File: "/p"}.Begin(l)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, i := range state.Better() {
			got += i.Object.Path
		}
		if got != want {
			t.Errorf("%q: %s", cpu, got)
		}
	}
}

// A library of CUDA's tries several places for one of the driver's: what is in none of them is said once, and not where another way leads
// to it (libcupti.so.13 has four paths of libnvidia-ml.so.1; cuda-python's cydriver "/libcuda.so.1.1", the end of a path that it makes).
func TestOpenAllPlaces(t *testing.T) {
	for _, c := range []struct{ data, want, in string }{
		{"\x00/usr/lib64/libnvidia-ml.so.1\x00/usr/lib/nvidia/libnvidia-ml.so.1\x00", "/usr/lib64/libnvidia-ml.so.1", ""},
		{"\x00/usr/lib64/libnvidia-ml.so.1\x00/opt/libnvidia-ml.so.1\x00", "", "/opt/libnvidia-ml.so.1"},
		{"\x00/usr/lib64/libnvidia-ml.so.1\x00libnvidia-ml.so.1\x00", "libnvidia-ml.so.1", ""},
		{"\x00/libcuda.so.1.1\x00", "", ""},
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
		if got := strings.Join(failed, " "); got != c.want || state.in() != c.in {
			t.Errorf("%q: failed %s, in the process %s", c.data, got, state.in())
		}
	}
}

// A path that leads to a file is opened in vain for all to see, whoever would leave out what is not there: it was meant.
func TestAPathThatExistsIsNotLeftOut(t *testing.T) {
	s := newStage(t)
	s.put("/y/libq.so", tinyelf.Object{Class: elf.ELFCLASS32})
	p := prog()
	p.Data = "\x00/y/libq.so\x00/y/libnone.so\x00"
	s.put("/p", p)
	state := s.begin("/p", loader.Environment{})
	state.OpenAll(state.Likely(false), func(string) bool { return false })
	if len(state.Failed) != 1 || state.Failed[0].Name != "/y/libq.so" {
		t.Errorf("%+v", state.Failed)
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

// What cuDNN names without a version it opens with its own: the other name may be a distribution's, of another version.
func TestPartsAreOpenedByTheirVersion(t *testing.T) {
	stage := newStage(t)
	stage.put("/p", prog("libcudnn.so.9", "libcudnn_cnn.so.9").With(elf.DT_RUNPATH, "/venv:/more"))
	stage.put("/more/libcudnn_cnn.so.9", lib("libcudnn_cnn.so.9")) // which the program alone finds
	whole := lib("libcudnn.so.9").With(elf.DT_RUNPATH, "$ORIGIN")
	whole.Data = "\x00libcudnn_ops.so\x00libcudnn_adv.so\x00libcudnn_cnn.so\x00"
	stage.put("/venv/libcudnn.so.9", whole)
	stage.put("/venv/libcudnn_ops.so.9", lib("libcudnn_ops.so.9"))
	stage.put("/usr/lib/libcudnn_ops.so", lib("libcudnn_ops.so.8"))
	stage.put("/usr/lib/libcudnn_cnn.so", lib("libcudnn_cnn.so.8"))
	stage.put("/usr/lib/libcudnn_adv.so", lib("libcudnn_adv.so.8"))
	s := stage.begin("/p", loader.Environment{})
	s.OpenAll(s.Likely(false), func(string) bool { return false })
	var got []string
	for _, o := range s.Objects[1:] {
		got = append(got, o.Path)
	}
	if want := []string{"/venv/libcudnn.so.9", "/more/libcudnn_cnn.so.9", "/venv/libcudnn_ops.so.9", "/usr/lib/libcudnn_adv.so"}; !slices.Equal(got, want) {
		t.Error(got)
	}
}

// What the driver opens among its own libraries is not followed, however the driver was named.
func TestTheDriversOwnNamesAreNotFollowed(t *testing.T) {
	s := &State{Load: &loader.Load{Namespace: loader.Namespace{Main: &loader.Object{}}}}
	for name, want := range map[string]bool{
		"libcuda.so.1": false, "/usr/lib64/libcuda.so.1": false, "/usr/lib64/libcuda.so.580.159.04": false, "libcudart.so.13": true,
	} {
		if got := s.Likely(false)(&loader.Object{Name: name}, files.Literal{Name: "libnvrm_sync.so", Driver: true}); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
