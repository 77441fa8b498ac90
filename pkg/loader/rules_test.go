package loader

import (
	"cmp"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"cuda-runpath/pkg/files"
	"cuda-runpath/tests/tinyelf"
)

// realLoader runs beside ours where the machine has it; LOADER in the environment
// names another glibc's.
var realLoader = cmp.Or(os.Getenv("LOADER"), "/lib64/ld-linux-x86-64.so.2")

// stage is a folder in which one rule is shown.
type stage struct {
	*testing.T
	dir string
	o   Options
	// noReal: the real loader cannot be asked (another machine, set-user-ID, a root).
	noReal bool
	isReal bool // the real loader is below the root
	setID  bool // programs are set-user-ID
}

func newStage(t *testing.T) *stage {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	return &stage{T: t, dir: dir}
}

// path replaces a leading "~" by the folder.
func (s *stage) path(p string) string { return strings.ReplaceAll(p, "~", s.dir) }

// put writes a file; list elements of a run path may use "~" too.
func (s *stage) put(name string, o tinyelf.Object) {
	s.Helper()
	for i := range o.Strings {
		o.Strings[i].Str = s.path(o.Strings[i].Str)
	}
	s.raw(name, string(o.Bytes()))
}

func (s *stage) raw(name, contents string) {
	s.Helper()
	p := s.dir + "/" + name
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(contents), 0o755); err != nil {
		s.Fatal(err)
	}
}

func (s *stage) link(target, name string) {
	s.Helper()
	os.MkdirAll(filepath.Dir(s.dir+"/"+name), 0o755)
	if err := os.Symlink(s.path(target), s.dir+"/"+name); err != nil {
		s.Fatal(err)
	}
}

func lib(soname string) tinyelf.Object { return tinyelf.Object{}.With(elf.DT_SONAME, soname) }

// Tags of the dynamic section that debug/elf has no names for.
const dtAudit, dtDepAudit elf.DynTag = 0x6ffffefc, 0x6ffffefb

func prog(needed ...string) tinyelf.Object {
	return tinyelf.Object{Interp: realLoader}.Needs(needed...)
}

// load returns the load of a program below the folder.
func (s *stage) load(program string) *Load {
	s.Helper()
	s.o.LibraryPath, s.o.Preload = s.path(s.o.LibraryPath), s.path(s.o.Preload)
	l, err := New(s.o)
	if err != nil {
		s.Fatal(err)
	}
	p := s.dir + "/" + program
	if s.setID {
		os.Chmod(p, os.ModeSetuid|0o755)
	}
	if s.o.Root != "" {
		p = "/" + program
	}
	load, err := l.Load(p)
	if err != nil {
		s.Fatal(err)
	}
	return load
}

// want checks what a name leads to ("" for nothing) and by which rule, and that
// the real loader agrees.
func (s *stage) want(program, name, path string, rule Rule) *Object {
	s.Helper()
	load := s.load(program)
	var o *Object
	for _, x := range load.Objects {
		for _, u := range x.Uses {
			if u.Name == s.path(name) {
				o = u.To
			}
		}
	}
	if o == nil {
		s.Fatalf("nothing asks for %s", name)
	}
	if o.Path != s.path(path) || o.Rule != rule {
		s.Errorf("%s is %q (%s), want %q (%s)", name, o.Path, o.Rule, s.path(path), rule)
	}
	if got, ok := s.real(program, s.path(name)); ok && got != s.path(path) {
		s.Errorf("the real loader finds %s at %q, want %q", name, got, s.path(path))
	}
	return o
}

// real asks the machine's own loader.
func (s *stage) real(program, name string) (path string, ok bool) {
	out, _ := s.trace(program)
	for line := range strings.Lines(out) {
		line, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "\t")
		if !ok {
			continue
		}
		line, _, _ = strings.Cut(line, " (0x")
		who, where, arrow := strings.Cut(line, " => ")
		if !arrow {
			where = who
		}
		if who == name {
			return strings.TrimSuffix(where, "not found"), true
		}
	}
	return "", false
}

// trace returns what the machine's own loader prints; ok is false where it cannot be asked.
func (s *stage) trace(program string) (out string, ok bool) {
	if s.noReal || runtime.GOARCH != "amd64" {
		return "", false
	}
	if _, err := os.Stat(realLoader); err != nil {
		return "", false
	}
	cmd := exec.Command(s.dir + "/" + program)
	cmd.Dir = s.dir
	cmd.Env = []string{"LD_TRACE_LOADED_OBJECTS=1", "LC_ALL=C"}
	if s.o.LibraryPath != "" {
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+s.o.LibraryPath)
	}
	if s.o.Preload != "" {
		cmd.Env = append(cmd.Env, "LD_PRELOAD="+s.o.Preload)
	}
	b, _ := cmd.CombinedOutput()
	return string(b), true
}

// stops checks why a program does not start ("": it does), and that the real loader
// says the same.
func (s *stage) stops(program, why string) *Load {
	s.Helper()
	l := s.load(program)
	if l.Err != s.path(why) {
		s.Errorf("it stops for %q, want %q", l.Err, s.path(why))
	}
	if out, ok := s.trace(program); ok {
		stops := strings.Contains(out, ": version `") || strings.Contains(out, "error while loading")
		if stops != (why != "") || !strings.Contains(out, s.path(why)) {
			s.Errorf("the real loader says %q, want %q", out, s.path(why))
		}
	}
	return l
}

// One test for each rule of glibc's loader; the name is the rule.
func TestGLibc(t *testing.T) {
	for _, c := range []struct {
		rule string
		test func(*stage)
	}{
		{"DT_RUNPATH is searched in order", func(s *stage) {
			s.put("a/liba.so.1", lib("liba.so.1"))
			s.put("b/liba.so.1", lib("liba.so.1"))
			s.put("p", prog("liba.so.1").With(elf.DT_RUNPATH, "~/none:~/b:~/a"))
			o := s.want("p", "liba.so.1", "~/b/liba.so.1", ByRunPath)
			if len(o.Tried) != 1 || o.Tried[0].Path != s.dir+"/none/liba.so.1" || o.Entry != s.dir+"/b" {
				s.Errorf("tried %+v, entry %s", o.Tried, o.Entry)
			}
		}},
		{"a symbol version that the library found does not define stops the load", func(s *stage) {
			s.put("a/liba.so.1", tinyelf.Object{Defines: []string{"V_1"}}.With(elf.DT_SONAME, "liba.so.1"))
			s.put("p", prog("liba.so.1").With(elf.DT_RUNPATH, "~/a"))
			s.stops("p", "")
			needs := prog("liba.so.1").With(elf.DT_RUNPATH, "~/a")
			needs.Requires = []tinyelf.Requirement{{Library: "liba.so.1", Version: "V_1"}, {Library: "liba.so.1", Version: "V_2"}}
			s.put("q", needs)
			l := s.stops("q", "~/a/liba.so.1: version `V_2' not found (required by ~/q)")
			if o := l.Objects[1]; len(o.Lacks) != 1 || o.Lacks[0] != (Lack{Version: "V_2", By: l.Main, of: o}) || o.LackText() != s.path("version `V_2' not found (required by ~/q)") {
				s.Errorf("lacks %+v: %s", o.Lacks, o.LackText())
			}
		}},
		{"a symbol version that is needed weakly may lack", func(s *stage) {
			s.put("a/liba.so.1", tinyelf.Object{Defines: []string{"V_1"}}.With(elf.DT_SONAME, "liba.so.1"))
			p := prog("liba.so.1").With(elf.DT_RUNPATH, "~/a")
			p.Requires = []tinyelf.Requirement{{Library: "liba.so.1", Version: "V_2", Weak: true}}
			s.put("p", p)
			s.stops("p", "")
		}},
		{"a library without versions has them all", func(s *stage) {
			s.put("a/liba.so.1", lib("liba.so.1"))
			p := prog("liba.so.1").With(elf.DT_RUNPATH, "~/a")
			p.Requires = []tinyelf.Requirement{{Library: "liba.so.1", Version: "V_2"}}
			s.put("p", p)
			s.stops("p", "")
		}},
		{"versions are compared once all is loaded", func(s *stage) {
			s.put("a/liba.so.1", tinyelf.Object{Requires: []tinyelf.Requirement{{Library: "libb.so.1", Version: "V_9"}}}.With(elf.DT_SONAME, "liba.so.1").Needs("libb.so.1"))
			s.put("a/libb.so.1", tinyelf.Object{Defines: []string{"V_1"}}.With(elf.DT_SONAME, "libb.so.1").Needs("libd.so.1"))
			s.put("a/libd.so.1", lib("libd.so.1"))
			s.put("p", prog("liba.so.1").With(elf.DT_RPATH, "~/a"))
			s.stops("p", "~/a/libb.so.1: version `V_9' not found (required by ~/a/liba.so.1)")
			s.want("p", "libd.so.1", "~/a/libd.so.1", ByRPath)
		}},
		{"a version of a library that is not loaded crashes the loader", func(s *stage) {
			p := prog("libc.so.6")
			p.Requires = []tinyelf.Requirement{{Library: "libother.so.1", Version: "V_1"}}
			s.put("p", p)
			if l := s.load("p"); !strings.HasSuffix(l.Err, "the loader crashes") {
				s.Errorf("error: %q", l.Err)
			}
			if out, ok := s.trace("p"); ok && !strings.Contains(out, "Inconsistency detected by ld.so") {
				s.Errorf("the real loader says %q", out)
			}
		}},
		{"DT_RELR without the version that guards it is refused", func(s *stage) {
			s.put("a/liba.so.1", tinyelf.Object{RelR: true, Requires: []tinyelf.Requirement{{Library: "libc.so.6", Version: "GLIBC_2.2.5"}}}.
				With(elf.DT_SONAME, "liba.so.1").Needs("libc.so.6"))
			s.put("p", prog("liba.so.1").With(elf.DT_RUNPATH, "~/a"))
			if l := s.load("p"); l.Interp.Version >= 36 {
				s.stops("p", "~/a/liba.so.1: DT_RELR without GLIBC_ABI_DT_RELR dependency")
			}
		}},
		{"what dlopen cannot load does not keep the program from starting", func(s *stage) {
			s.put("a/liba.so.1", tinyelf.Object{Defines: []string{"V_1"}}.With(elf.DT_SONAME, "liba.so.1"))
			b := lib("libb.so.1").Needs("liba.so.1").With(elf.DT_RUNPATH, "~/a")
			b.Requires = []tinyelf.Requirement{{Library: "liba.so.1", Version: "V_2"}}
			s.put("a/libb.so.1", b)
			s.put("a/libd.so.1", lib("libd.so.1").Needs("libnone.so.1"))
			s.put("p", prog("libc.so.6").With(elf.DT_RUNPATH, "~/a"))
			l := s.load("p")
			o := l.Open("libb.so.1", l.Main, DlopenAsked, "").To
			l.Open("libd.so.1", l.Main, DlopenAsked, "")
			if !o.Found() || l.Err != "" || len(l.Missing()) > 0 {
				s.Errorf("found: %v, error: %q, missing: %v", o.Found(), l.Err, l.Missing())
			}
			if why := o.Fails(); why != s.path("~/a/liba.so.1: version `V_2' not found (required by ~/a/libb.so.1)") {
				s.Errorf("opening it fails for %q", why)
			}
			if why := l.Objects[1].Fails(); l.Objects[1].Name != "libc.so.6" || why != "" {
				s.Errorf("opening %s fails for %q", l.Objects[1].Name, why)
			}
			for _, o := range l.WithFailed() {
				late := o.Name == "liba.so.1" || o.Name == "libb.so.1" || o.Name == "libd.so.1" || o.Name == "libnone.so.1"
				if o.Certain() == late || (len(o.Lacks) == 1) != (o.Name == "liba.so.1") || o.Found() == (o.Name == "libnone.so.1") {
					s.Errorf("%s: certain: %v, found: %v, lacks %v", o.Name, o.Certain(), o.Found(), o.Lacks)
				}
			}
		}},
		{"what is opened inherits no DT_RPATH of who opens it, but the program's", func(s *stage) {
			s.put("a/liba.so.1", lib("liba.so.1").With(elf.DT_RPATH, "~/x"))
			s.put("x/libplug.so", lib("libplug.so").Needs("libdep.so"))
			s.put("x/libdep.so", lib("libdep.so"))
			for list, want := range map[string]string{"~/a": "libdep.so, which ~/x/libplug.so needs, is not found", "~/a:~/x": ""} {
				s.put("p", prog("liba.so.1").With(elf.DT_RPATH, list))
				l := s.load("p")
				if o := l.Open("libplug.so", l.Objects[1], DlopenAsked, ""); o.To.Path != s.path("~/x/libplug.so") || o.Why != s.path(want) {
					s.Errorf("%s: %s %q, want %q", list, o.To.Path, o.Why, s.path(want))
				}
			}
		}},
		{"the driver, where none is installed, is taken to be there for what needs it, not where it is opened itself", func(s *stage) {
			s.o.Root, s.noReal = s.dir, true
			const at = "/a:/run/opengl-driver/lib"
			s.put("a/libplug.so", lib("libplug.so").Needs("libcuda.so.1").With(elf.DT_RUNPATH, at))
			s.put("p", prog().With(elf.DT_RUNPATH, at))
			l := s.load("p")
			if o := l.Open("libplug.so", l.Main, DlopenAsked, ""); o.Why != "" {
				s.Error(o.Why)
			}
			l = s.load("p")
			if o := l.Open("libcuda.so.1", l.Main, DlopenAsked, ""); o.Why != "libcuda.so.1, which /p needs, is not found" {
				s.Errorf("%q", o.Why)
			}
		}},
		{"what DT_AUXILIARY names may be a library that must not be opened, which is no library of the process then", func(s *stage) {
			never := lib("libnever.so")
			never.Flags1 = elf.DF_1_NOOPEN
			s.put("a/libnever.so", never)
			s.link("libnever.so", "a/libother.so")
			s.put("a/libplug.so", lib("libplug.so").With(elf.DT_AUXILIARY, "libnever.so").With(elf.DT_RUNPATH, "$ORIGIN"))
			s.put("p", prog().With(elf.DT_RUNPATH, "~/a"))
			l := s.load("p")
			if o := l.Open("libplug.so", l.Main, DlopenAsked, ""); o.Why != "" {
				s.Error(o.Why)
			}
			for _, name := range []string{"libother.so", "libnever.so"} {
				if o := l.Open(name, l.Main, DlopenAsked, ""); o.Again || !strings.HasSuffix(o.Why, "shared object cannot be dlopen()ed") {
					s.Errorf("%s: %q, there before: %v", name, o.Why, o.Again)
				}
			}
		}},
		{"DT_RUNPATH is not inherited", func(s *stage) {
			s.put("a/liba.so.1", lib("liba.so.1").Needs("libb.so.1"))
			s.put("b/libb.so.1", lib("libb.so.1"))
			s.put("p", prog("liba.so.1").With(elf.DT_RUNPATH, "~/a:~/b"))
			s.want("p", "libb.so.1", "", NotFound)
		}},
		{"DT_RPATH is inherited from the loading object", func(s *stage) {
			s.put("a/liba.so.1", lib("liba.so.1").Needs("libb.so.1").With(elf.DT_RPATH, "~/b"))
			s.put("b/libb.so.1", lib("libb.so.1").Needs("libc1.so.1"))
			s.put("b/libc1.so.1", lib("libc1.so.1"))
			s.put("p", prog("liba.so.1").With(elf.DT_RUNPATH, "~/a"))
			if o := s.want("p", "libc1.so.1", "~/b/libc1.so.1", ByRPath); o.List == nil || o.List.Name != "liba.so.1" {
				s.Errorf("whose list: %+v", o.List)
			}
		}},
		{"DT_RPATH of the program is searched last of them", func(s *stage) {
			s.put("a/liba.so.1", lib("liba.so.1").Needs("libb.so.1").With(elf.DT_RPATH, "~/x"))
			s.put("x/libb.so.1", lib("libb.so.1"))
			s.put("a/libb.so.1", lib("libb.so.1"))
			s.put("p", prog("liba.so.1").With(elf.DT_RPATH, "~/a"))
			s.want("p", "libb.so.1", "~/x/libb.so.1", ByRPath)
		}},
		{"DT_RPATH beside DT_RUNPATH is ignored", func(s *stage) {
			s.put("a/liba.so.1", lib("liba.so.1"))
			s.put("p", prog("liba.so.1").With(elf.DT_RPATH, "~/a").With(elf.DT_RUNPATH, "~/none"))
			s.want("p", "liba.so.1", "", NotFound)
		}},
		{"an object with DT_RUNPATH does not use the DT_RPATH of its loaders", func(s *stage) {
			s.put("a/liba.so.1", lib("liba.so.1").Needs("libb.so.1").With(elf.DT_RUNPATH, "~/none"))
			s.put("a/libb.so.1", lib("libb.so.1"))
			s.put("p", prog("liba.so.1").With(elf.DT_RPATH, "~/a"))
			s.want("p", "libb.so.1", "", NotFound)
		}},
		{"LD_LIBRARY_PATH comes before DT_RUNPATH", func(s *stage) {
			s.put("a/liba.so.1", lib("liba.so.1"))
			s.put("e/liba.so.1", lib("liba.so.1"))
			s.put("p", prog("liba.so.1").With(elf.DT_RUNPATH, "~/a"))
			s.o.LibraryPath = "~/e"
			s.want("p", "liba.so.1", "~/e/liba.so.1", ByEnv)
		}},
		{"LD_LIBRARY_PATH comes after DT_RPATH", func(s *stage) {
			s.put("a/liba.so.1", lib("liba.so.1"))
			s.put("e/liba.so.1", lib("liba.so.1"))
			s.put("p", prog("liba.so.1").With(elf.DT_RPATH, "~/a"))
			s.o.LibraryPath = "~/e"
			s.want("p", "liba.so.1", "~/a/liba.so.1", ByRPath)
		}},
		{"LD_LIBRARY_PATH is also split at semicolons", func(s *stage) {
			s.put("e/liba.so.1", lib("liba.so.1"))
			s.put("p", prog("liba.so.1"))
			s.o.LibraryPath = "~/none;~/e"
			s.want("p", "liba.so.1", "~/e/liba.so.1", ByEnv)
		}},
		{"a set-user-ID program ignores LD_LIBRARY_PATH", func(s *stage) {
			s.put("e/liba.so.1", lib("liba.so.1"))
			s.put("p", prog("liba.so.1"))
			os.Chmod(s.dir+"/p", os.ModeSetuid|0o755)
			s.o.LibraryPath, s.noReal = "~/e", true
			s.want("p", "liba.so.1", "", NotFound)
		}},
		{"a set-user-ID program uses $ORIGIN only in trusted directories", func(s *stage) {
			s.put("a/liba.so.1", lib("liba.so.1"))
			s.put("bin/p", prog("liba.so.1").With(elf.DT_RUNPATH, "$ORIGIN/../a"))
			os.Chmod(s.dir+"/bin/p", os.ModeSetuid|0o755)
			s.noReal = true
			s.want("bin/p", "liba.so.1", "", NotFound)
			os.Chmod(s.dir+"/bin/p", 0o755)
			s.noReal = false
			s.want("bin/p", "liba.so.1", "~/bin/../a/liba.so.1", ByRunPath)
		}},
		{"a set-user-ID program in a default directory may use $ORIGIN", func(s *stage) {
			s.o.Root, s.setID = s.dir, true
			s.put("usr/lib64/app/libs/liba.so.1", lib("liba.so.1"))
			s.put("usr/lib64/app/p", prog("liba.so.1").With(elf.DT_RUNPATH, "$ORIGIN/libs"))
			s.root("usr/lib64/app/p", "liba.so.1", "/usr/lib64/app/libs/liba.so.1", ByRunPath)
			s.put("usr/lib64/app/q", prog("liba.so.1").With(elf.DT_RUNPATH, "$ORIGIN/../../../opt:/x$ORIGIN/libs"))
			s.put("opt/liba.so.1", lib("liba.so.1"))
			s.root("usr/lib64/app/q", "liba.so.1", "", NotFound)
		}},
		{"an empty entry is the working directory", func(s *stage) {
			s.put("liba.so.1", lib("liba.so.1"))
			s.put("bin/p", prog("liba.so.1").With(elf.DT_RUNPATH, "/none:"))
			s.want("bin/p", "liba.so.1", "liba.so.1", ByRunPath)
		}},
		{"an empty DT_RUNPATH is no run path, yet stops DT_RPATH", func(s *stage) {
			s.put("liba.so.1", lib("liba.so.1"))
			s.put("p", prog("liba.so.1").With(elf.DT_RPATH, "~").With(elf.DT_RUNPATH, ""))
			s.want("p", "liba.so.1", "", NotFound)
		}},
		{"a relative entry is below the working directory", func(s *stage) {
			s.put("a/liba.so.1", lib("liba.so.1"))
			s.put("bin/p", prog("liba.so.1").With(elf.DT_RUNPATH, "a"))
			s.want("bin/p", "liba.so.1", "a/liba.so.1", ByRunPath)
		}},
		{"$ORIGIN of a library is where it was found, links not resolved", func(s *stage) {
			s.put("real/liba.so.1", lib("liba.so.1").Needs("libb.so.1").With(elf.DT_RUNPATH, "$ORIGIN"))
			s.put("real/libb.so.1", lib("libb.so.1"))
			s.put("links/libb.so.1", lib("libb.so.1"))
			s.link("../real/liba.so.1", "links/liba.so.1")
			s.put("p", prog("liba.so.1").With(elf.DT_RUNPATH, "~/links"))
			s.want("p", "libb.so.1", "~/links/libb.so.1", ByRunPath)
		}},
		{"$ORIGIN of a program is where it is, links resolved", func(s *stage) {
			s.put("real/p", prog("liba.so.1").With(elf.DT_RUNPATH, "$ORIGIN"))
			s.put("real/liba.so.1", lib("liba.so.1"))
			s.put("links/liba.so.1", lib("liba.so.1"))
			s.link("../real/p", "links/p")
			s.want("links/p", "liba.so.1", "~/real/liba.so.1", ByRunPath)
		}},
		{"${ORIGIN} is $ORIGIN, $ORIGINAL is not", func(s *stage) {
			s.put("x/a/liba.so.1", lib("liba.so.1"))
			s.put("xAL/a/liba.so.1", lib("liba.so.1"))
			s.put("x/p", prog("liba.so.1").With(elf.DT_RUNPATH, "$ORIGINAL/a:$ORIGIN/${ORIGI:${ORIGIN}/a"))
			s.want("x/p", "liba.so.1", "~/x/a/liba.so.1", ByRunPath)
		}},
		{"$LIB is what the loader was built for", func(s *stage) {
			load := func() *Load { s.put("q", prog()); return s.load("q") }()
			s.put("a/"+load.Interp.lib+"/liba.so.1", lib("liba.so.1"))
			s.put("p", prog("liba.so.1").With(elf.DT_RUNPATH, "~/a/$LIB"))
			s.want("p", "liba.so.1", "~/a/"+load.Interp.lib+"/liba.so.1", ByRunPath)
		}},
		{"$PLATFORM is the processor's", func(s *stage) {
			s.put("q", prog())
			platform := s.load("q").cpu.platform
			s.put("a/"+platform+"/liba.so.1", lib("liba.so.1"))
			s.put("p", prog("liba.so.1").With(elf.DT_RUNPATH, "~/a/${PLATFORM}"))
			s.want("p", "liba.so.1", "~/a/"+platform+"/liba.so.1", ByRunPath)
		}},
		{"a loaded soname wins over the search", func(s *stage) {
			s.put("a/liba.so.1", lib("libb.so.1"))
			s.put("a/libb.so.1", lib("libb.so.1"))
			s.put("p", prog("liba.so.1", "libb.so.1").With(elf.DT_RUNPATH, "~/a"))
			o := s.load("p").Main.Uses[1]
			if !o.Again || o.To.Path != s.dir+"/a/liba.so.1" {
				s.Errorf("libb.so.1 is %s", o.To.Path)
			}
			if _, listed := s.real("p", "libb.so.1"); listed {
				s.Error("the real loader loaded libb.so.1 of its own")
			}
		}},
		{"one file under two names is loaded once", func(s *stage) {
			s.put("a/liba.so.1", tinyelf.Object{})
			os.Link(s.dir+"/a/liba.so.1", s.dir+"/a/libb.so.1")
			s.put("p", prog("liba.so.1", "libb.so.1").With(elf.DT_RUNPATH, "~/a"))
			if o := s.load("p").Main.Uses[1]; !o.Again || o.To.Name != "liba.so.1" {
				s.Errorf("libb.so.1 is %+v", o)
			}
			if _, listed := s.real("p", "libb.so.1"); listed {
				s.Error("the real loader loaded the file twice")
			}
		}},
		{"a library of another class is passed over", func(s *stage) {
			other := lib("liba.so.1")
			other.Class, other.Machine = elf.ELFCLASS32, elf.EM_386
			s.put("a/liba.so.1", other)
			s.put("b/liba.so.1", lib("liba.so.1"))
			s.put("p", prog("liba.so.1").With(elf.DT_RUNPATH, "~/a:~/b"))
			if o := s.want("p", "liba.so.1", "~/b/liba.so.1", ByRunPath); !strings.Contains(o.Tried[0].Why, "ELFCLASS32") {
				s.Errorf("tried: %+v", o.Tried)
			}
		}},
		{"a library of another machine is passed over", func(s *stage) {
			other := lib("liba.so.1")
			other.Machine = elf.EM_AARCH64
			s.put("a/liba.so.1", other)
			s.put("b/liba.so.1", lib("liba.so.1"))
			s.put("p", prog("liba.so.1").With(elf.DT_RUNPATH, "~/a:~/b"))
			if o := s.want("p", "liba.so.1", "~/b/liba.so.1", ByRunPath); !strings.Contains(o.Tried[0].Why, "EM_AARCH64") {
				s.Errorf("tried: %+v", o.Tried)
			}
		}},
		{"a library of another files.ABI by e_flags is passed over", func(s *stage) {
			s.noReal = true
			soft := lib("liba.so.1")
			soft.Machine = elf.EM_RISCV
			hard := soft
			hard.EFlags = 4 // EF_RISCV_FLOAT_ABI_DOUBLE
			s.put("a/liba.so.1", soft)
			s.put("b/liba.so.1", hard)
			p := tinyelf.Object{Machine: elf.EM_RISCV, EFlags: 5, Interp: "/lib/ld-linux-riscv64-lp64d.so.1"}
			s.put("p", p.Needs("liba.so.1").With(elf.DT_RUNPATH, "~/a:~/b"))
			if o := s.want("p", "liba.so.1", "~/b/liba.so.1", ByRunPath); !strings.Contains(o.Tried[0].Why, "e_flags") {
				s.Errorf("tried: %+v", o.Tried)
			}
		}},
		{"a file that is no ELF file stops the load", func(s *stage) {
			s.raw("a/liba.so.1", strings.Repeat("text ", 30))
			s.put("b/liba.so.1", lib("liba.so.1"))
			s.put("p", prog("liba.so.1").With(elf.DT_RUNPATH, "~/a:~/b"))
			if l := s.load("p"); !strings.Contains(l.Err, "a/liba.so.1: invalid ELF header") {
				s.Errorf("error: %q", l.Err)
			}
		}},
		{"a short file stops the load", func(s *stage) {
			s.raw("a/liba.so.1", "\x7fELF\x02")
			s.put("p", prog("liba.so.1").With(elf.DT_RUNPATH, "~/a"))
			if l := s.load("p"); !strings.Contains(l.Err, "file too short") {
				s.Errorf("error: %q", l.Err)
			}
		}},
		{"a directory with a library's name stops the load", func(s *stage) {
			os.MkdirAll(s.dir+"/a/liba.so.1", 0o755)
			s.put("p", prog("liba.so.1").With(elf.DT_RUNPATH, "~/a"))
			if l := s.load("p"); !strings.Contains(l.Err, "directory") {
				s.Errorf("error: %q", l.Err)
			}
		}},
		{"a program cannot be loaded as a library", func(s *stage) {
			pie := lib("liba.so.1")
			pie.Flags1 = elf.DF_1_PIE
			s.put("a/liba.so.1", pie)
			s.put("p", prog("liba.so.1").With(elf.DT_RUNPATH, "~/a"))
			if l := s.load("p"); !strings.Contains(l.Err, "position-independent executable") {
				s.Errorf("error: %q", l.Err)
			}
		}},
		{"a link that leads to itself ends the search of its list only", func(s *stage) {
			s.link("liba.so.1", "a/liba.so.1")
			s.put("b/liba.so.1", lib("liba.so.1"))
			s.put("e/liba.so.1", lib("liba.so.1"))
			s.put("p", prog("liba.so.1").With(elf.DT_RPATH, "~/a:~/b"))
			s.o.LibraryPath = "~/e"
			s.want("p", "liba.so.1", "~/e/liba.so.1", ByEnv)
		}},
		{"a file of another machine and byte order ends the search, but for Debian's loader", func(s *stage) {
			good := lib("liba.so.1")
			s.put("b/liba.so.1", good)
			s.put("p", prog("liba.so.1").With(elf.DT_RUNPATH, "~/a:~/b"))
			debian := s.load("p").Interp.debian
			for _, c := range []struct {
				machine [2]byte // e_machine as it stands in the file
				passes  bool
			}{
				{[2]byte{byte(elf.EM_X86_64), 0}, false}, // what the loader reads as its own machine
				{[2]byte{0, byte(elf.EM_X86_64)}, debian},
				{[2]byte{0, byte(elf.EM_S390)}, debian},
			} {
				b := good.Bytes()
				b[elf.EI_DATA] = byte(elf.ELFDATA2MSB)
				copy(b[18:], c.machine[:])
				s.raw("a/liba.so.1", string(b))
				if c.passes {
					s.want("p", "liba.so.1", "~/b/liba.so.1", ByRunPath)
				} else {
					s.stops("p", "~/a/liba.so.1: ELF file data encoding not little-endian")
				}
				f := s.load("p").l.files.Open(s.dir + "/a/liba.so.1")
				abi := files.ABI{Class: elf.ELFCLASS64, Data: elf.ELFDATA2LSB, Machine: elf.EM_X86_64}
				for _, of := range []bool{false, true} {
					if skip, fatal := verify(abi, f, of); (fatal == "") != (of && c.machine[1] != 0) || skip+fatal == "" {
						s.Errorf("%v, Debian's %v: %q %q", c.machine, of, skip, fatal)
					}
				}
			}
		}},
		{"what the header says of the operating system's files.ABI is known, or the load stops", func(s *stage) {
			s.put("p", prog("liba.so.1").With(elf.DT_RUNPATH, "~/a"))
			for _, osabi := range []elf.OSABI{elf.ELFOSABI_NONE, elf.ELFOSABI_LINUX, elf.ELFOSABI_FREEBSD} {
				for _, version := range []byte{0, 1, 2, 3, 4, 5, 255} {
					b := lib("liba.so.1").Bytes()
					b[elf.EI_OSABI], b[elf.EI_ABIVERSION] = byte(osabi), version
					s.raw("a/liba.so.1", string(b))
					why := ""
					if osabi == elf.ELFOSABI_FREEBSD {
						why = "~/a/liba.so.1: ELF file OS ABI invalid"
					} else if version > 3 || version > 0 && osabi == elf.ELFOSABI_NONE {
						why = "~/a/liba.so.1: ELF file ABI version invalid"
					}
					s.stops("p", why)
				}
			}
		}},
		{"each field of the header that does not fit stops the load", func(s *stage) {
			s.put("p", prog("liba.so.1").With(elf.DT_RUNPATH, "~/a"))
			for _, c := range []struct {
				at  int
				v   byte
				why string
			}{
				{0, 'e', "invalid ELF header"}, {elf.EI_VERSION, 2, "ELF file version ident does not match current one"},
				{9, 1, "nonzero padding in e_ident"}, {15, 1, "nonzero padding in e_ident"}, {20, 2, "ELF file version does not match current one"},
				{16, byte(elf.ET_REL), "only ET_DYN and ET_EXEC can be loaded"}, {54, 55, "ELF file's phentsize not the expected size"},
			} {
				b := lib("liba.so.1").Bytes()
				b[c.at] = c.v
				s.raw("a/liba.so.1", string(b))
				s.stops("p", "~/a/liba.so.1: "+c.why)
			}
		}},
		{"a path of PATH_MAX bytes ends the list, a directory of as many does not exist", func(s *stage) {
			s.put("a/liba.so.1", lib("liba.so.1"))
			s.put("b/liba.so.1", lib("liba.so.1"))
			long := func(n int) string { // the directory, in so many bytes
				dir := s.dir + "/a"
				for len(dir)+5 <= n-4 {
					dir += "/../a"
				}
				return dir + strings.Repeat("/", n-1-len(dir)-1) + "/."
			}
			// Of a directory of 4,095 bytes itself 2.36 ends the list, and 2.41 goes on.
			for n, want := range map[int]string{
				4095 - len("/liba.so.1"): "own", 4096 - len("/liba.so.1"): "", 4096: "~/b/liba.so.1",
			} {
				dir := long(n)
				if len(dir) != n {
					s.Fatal(len(dir), n)
				}
				s.put("p", prog("liba.so.1").With(elf.DT_RUNPATH, dir+":~/b"))
				switch want {
				case "own":
					s.want("p", "liba.so.1", dir+"/liba.so.1", ByRunPath)
				case "":
					s.want("p", "liba.so.1", "", NotFound)
				default:
					s.want("p", "liba.so.1", want, ByRunPath)
				}
			}
		}},
		{"a dangling link is passed over", func(s *stage) {
			s.link("nothing", "a/liba.so.1")
			s.put("b/liba.so.1", lib("liba.so.1"))
			s.put("p", prog("liba.so.1").With(elf.DT_RUNPATH, "~/a:~/b"))
			s.want("p", "liba.so.1", "~/b/liba.so.1", ByRunPath)
		}},
		{"a name with a slash is not searched for", func(s *stage) {
			s.put("a/liba.so.1", lib("liba.so.1"))
			s.put("p", prog("$ORIGIN/a/liba.so.1"))
			s.want("p", "~/a/liba.so.1", "~/a/liba.so.1", ByPath)
		}},
		{"a hardware directory comes before the directory itself", func(s *stage) {
			s.put("a/liba.so.1", lib("liba.so.1"))
			s.put("a/glibc-hwcaps/x86-64-v2/liba.so.1", lib("liba.so.1"))
			s.put("a/glibc-hwcaps/x86-64-v3/liba.so.1", lib("liba.so.1"))
			s.put("a/glibc-hwcaps/x86-64-v9/liba.so.1", lib("liba.so.1"))
			s.put("p", prog("liba.so.1").With(elf.DT_RUNPATH, "~/a"))
			s.o.CPU, s.noReal = "x86-64-v2", true
			if s.load("p").Interp.hwcaps {
				s.want("p", "liba.so.1", "~/a/glibc-hwcaps/x86-64-v2/liba.so.1", ByRunPath)
			}
			s.o.CPU = "baseline"
			s.want("p", "liba.so.1", "~/a/liba.so.1", ByRunPath)
			// On this machine, whatever it is, we and the real loader agree.
			s.o.CPU, s.noReal = "native", false
			o := s.load("p").Main.Uses[0].To
			s.want("p", "liba.so.1", o.Path, ByRunPath)
		}},
		{"a preloaded library comes first and answers to its soname", func(s *stage) {
			s.put("x/other.so", lib("liba.so.1"))
			s.put("a/liba.so.1", lib("liba.so.1"))
			s.put("p", prog("liba.so.1").With(elf.DT_RUNPATH, "~/a"))
			if strings.Contains(s.dir, " ") {
				s.Skip("blanks separate what LD_PRELOAD names")
			}
			s.o.Preload = "~/x/other.so"
			l := s.load("p")
			if len(l.Objects) != 2 || l.Objects[1].Path != s.dir+"/x/other.so" {
				s.Errorf("loaded: %+v", l.Objects[1:])
			}
			if got, listed := s.real("p", "liba.so.1"); listed {
				s.Errorf("the real loader loaded %s", got)
			}
		}},
		{"the loader itself answers to its soname", func(s *stage) {
			s.put("a/ld-linux-x86-64.so.2", lib("ld-linux-x86-64.so.2"))
			s.put("p", prog("ld-linux-x86-64.so.2").With(elf.DT_RUNPATH, "~/a"))
			if _, err := os.Stat(realLoader); err != nil {
				s.Skip("no ", realLoader)
			}
			if o := s.load("p").Objects[1]; o.Rule != ByLoader || o.Path != realLoader {
				s.Errorf("%s (%s)", o.Path, o.Rule)
			}
		}},
		{"what two DT_AUXILIARY name stands before it in their order", func(s *stage) {
			s.put("a/liba.so.1", lib("liba.so.1").With(elf.DT_AUXILIARY, "libb.so.1").With(elf.DT_AUXILIARY, "libc.so.1"))
			for _, name := range []string{"b", "c"} {
				s.put("a/lib"+name+".so.1", lib("lib"+name+".so.1").Needs("libof"+name+".so.1"))
				s.put("a/libof"+name+".so.1", lib("libof"+name+".so.1"))
			}
			s.put("p", prog("liba.so.1").With(elf.DT_RPATH, "~/a"))
			var got []string
			for _, o := range s.load("p").Objects[1:] {
				got = append(got, o.Name)
			}
			if want := "liba.so.1 libb.so.1 libc.so.1 libofb.so.1 libofc.so.1"; strings.Join(got, " ") != want {
				s.Errorf("%q, want %s", got, want)
			}
		}},
		{"a place that was looked at is told with what was there", func(s *stage) {
			s.put("a/glibc-hwcaps/x86-64-v2/libb.so.1", lib("libb.so.1"))
			s.put("b/liba.so.1", tinyelf.Object{Machine: elf.EM_AARCH64}.With(elf.DT_SONAME, "liba.so.1"))
			s.raw("file", "")
			s.put("p", s.noted(prog("liba.so.1"), "liba.so.1", "=~/file/liba.so.1").With(elf.DT_RUNPATH, "~/a:~/b"))
			s.o.CPU, s.o.ReadsNote, s.noReal = "x86-64-v2", "yes", true
			o := s.load("p").Objects[1]
			if len(o.Tried) < 3 {
				s.Fatalf("%+v", o.Tried)
			}
			for i, want := range []Try{{Path: "~/file/liba.so.1"}, {Path: "~/a/liba.so.1"}, {Path: "~/b/liba.so.1", there: true, Alien: true}} {
				if got := o.Tried[i]; got.Path != s.path(want.Path) || got.there != want.there || got.Alien != want.Alien {
					s.Errorf("%+v, want %+v", got, want)
				}
			}
		}},
		{"versions are those of the library that they are needed of", func(s *stage) {
			for name, version := range map[string]string{"a": "V_A", "b": "V_B"} {
				l := lib("lib" + name + ".so.1")
				l.Defines = []string{version}
				s.put("a/lib"+name+".so.1", l)
			}
			p := prog("liba.so.1", "libb.so.1").With(elf.DT_RUNPATH, "~/a")
			p.Requires = []tinyelf.Requirement{{Library: "liba.so.1", Version: "V_A"}, {Library: "libb.so.1", Version: "V_B"}}
			s.put("p", p)
			s.stops("p", "")
			p.Requires[1].Version = "V_A"
			s.put("p", p)
			s.stops("p", "~/a/libb.so.1: version `V_A' not found (required by ~/p)")
		}},
		{"what DT_AUXILIARY names may be missing", func(s *stage) {
			s.put("a/liba.so.1", lib("liba.so.1").With(elf.DT_AUXILIARY, "libx.so.1"))
			s.put("p", prog("liba.so.1").With(elf.DT_RUNPATH, "~/a"))
			if l := s.load("p"); len(l.Missing()) != 0 || l.Err != "" {
				s.Errorf("missing: %v, error %q", l.Missing(), l.Err)
			}
		}},
		{"what DT_AUXILIARY names may be damaged", func(s *stage) {
			s.raw("a/libx.so.1", strings.Repeat("text ", 30))
			s.put("a/liba.so.1", lib("liba.so.1").With(elf.DT_AUXILIARY, "libx.so.1"))
			s.put("p", prog("liba.so.1").With(elf.DT_RPATH, "~/a"))
			if l := s.load("p"); l.Err != "" || l.Objects[2].Err == "" {
				s.Errorf("error %q, %+v", l.Err, l.Objects[2])
			}
		}},
		{"DT_AUXILIARY in a circle crashes the loader, not us", func(s *stage) {
			s.put("a/liba.so.1", lib("liba.so.1").With(elf.DT_AUXILIARY, "libb.so.1"))
			s.put("a/libb.so.1", lib("libb.so.1").With(elf.DT_AUXILIARY, "liba.so.1"))
			s.put("p", prog("liba.so.1").With(elf.DT_RPATH, "~/a"))
			if l := s.load("p"); !strings.Contains(l.Err, "circle") || len(l.Objects) != 3 {
				s.Errorf("error %q, %d objects", l.Err, len(l.Objects))
			}
		}},
		{"a circle of DT_AUXILIARY asks for what is not there once", func(s *stage) {
			s.put("a/liba.so.1", lib("liba.so.1").With(elf.DT_AUXILIARY, "libb.so.1").Needs("libnone.so.1"))
			s.put("a/libb.so.1", lib("libb.so.1").With(elf.DT_AUXILIARY, "liba.so.1").Needs("libnone.so.1"))
			s.put("p", prog("liba.so.1").With(elf.DT_RPATH, "~/a"))
			if l := s.load("p"); l.Err != "" || len(l.Missing()) != 2 {
				s.Errorf("error %q, %d missing", l.Err, len(l.Missing()))
			}
		}},
		{"DF_1_NODEFLIB keeps out the default directories", func(s *stage) {
			s.noReal = true
			s.o.Root = s.dir
			s.put("usr/lib64/liba.so.1", lib("liba.so.1"))
			s.put("p", prog("liba.so.1"))
			n := prog("liba.so.1")
			n.Flags1 = elf.DF_1_NODEFLIB
			s.put("n", n)
			s.root("p", "liba.so.1", "/usr/lib64/liba.so.1", ByDefault)
			s.root("n", "liba.so.1", "", NotFound)
		}},
		{"DF_1_NODEFLIB keeps out what ld.so.cache has in the default directories, and nothing else", func(s *stage) {
			s.realRoot()
			s.put("none", prog())
			in := strings.TrimPrefix(s.load("none").Interp.dirs[0], "/")
			s.put(in+"liba.so.1", lib("liba.so.1"))
			s.put("opt/libb.so.1", lib("libb.so.1"))
			n := prog("liba.so.1", "libb.so.1")
			s.put("p", n)
			n.Flags1 = elf.DF_1_NODEFLIB
			s.put("n", n)
			s.ldconfig("/"+in, "/opt")
			s.root("p", "liba.so.1", "/"+in+"liba.so.1", ByCache)
			s.root("n", "liba.so.1", "", NotFound)
			s.root("n", "libb.so.1", "/opt/libb.so.1", ByCache)
		}},
		{"ld.so.cache comes before the default directories", func(s *stage) {
			s.o.Root = s.dir
			s.put("usr/lib64/liba.so.1", lib("liba.so.1"))
			s.put("opt/liba.so.1", lib("liba.so.1"))
			s.put("p", prog("liba.so.1"))
			s.raw("etc/ld.so.cache", cacheOf("liba.so.1", "/opt/liba.so.1"))
			s.root("p", "liba.so.1", "/opt/liba.so.1", ByCache)
			// A stale entry is passed over.
			os.Remove(s.dir + "/opt/liba.so.1")
			s.root("p", "liba.so.1", "/usr/lib64/liba.so.1", ByDefault)
		}},
		{"ld.so.cache: directories of the hardware count before glibc 2.37", func(s *stage) {
			s.realRoot()
			s.put("opt/liba.so.1", lib("liba.so.1"))
			s.put("opt/tls/liba.so.1", lib("liba.so.1"))
			s.put("opt/libb.so.1", lib("libb.so.1"))
			s.put("opt/x86_64/libb.so.1", lib("libb.so.1"))
			s.put("opt/libd.so.1", lib("libd.so.1"))
			s.put("opt/xeon_phi/libd.so.1", lib("libd.so.1"))
			s.put("opt/libe.so.1", lib("libe.so.1"))
			s.put("opt/haswell/libe.so.1", lib("libe.so.1"))
			s.put("p", prog("liba.so.1", "libb.so.1", "libd.so.1", "libe.so.1"))
			s.ldconfig("/opt")
			l := s.load("p")
			if l.Interp.Version >= 37 {
				s.root("p", "libb.so.1", "/opt/libb.so.1", ByCache)
				return
			}
			s.root("p", "liba.so.1", "/opt/tls/liba.so.1", ByCache)
			s.root("p", "libb.so.1", "/opt/x86_64/libb.so.1", ByCache)
			for name, dir := range map[string]string{"libd.so.1": "xeon_phi/", "libe.so.1": "haswell/"} {
				if dir != l.cpu.platform+"/" {
					dir = ""
				}
				s.root("p", name, "/opt/"+dir+name, ByCache)
			}
		}},
		{"ld.so.cache: a damaged one is used as far as it is whole", func(s *stage) {
			s.realRoot()
			names := []string{"liba.so.1", "libb.so.1", "libd.so.1", "libe.so.1", "libf.so.1"}
			for _, n := range names {
				s.put("opt/"+n, lib(n))
			}
			s.put("p", prog(names...))
			s.ldconfig("/opt")
			at := s.dir + "/etc/ld.so.cache"
			whole, err := os.ReadFile(at)
			if err != nil {
				s.Fatal(err)
			}
			const entries, entry = 48, 24
			start := strings.Index(string(whole), "glibc-ld.so.cache1.1") // after the old layout, or at the start
			n := int(whole[start+20])
			for damaged := range n {
				for _, field := range []int{4, 8} { // soname, path
					b := append([]byte(nil), whole...)
					b[start+entries+damaged*entry+field+3] = 0x7f
					s.raw("etc/ld.so.cache", string(b))
					l := s.load("p")
					for _, o := range l.Objects[1:] {
						if o.Rule == ByCache || !o.Found() {
							s.root("p", o.Name, o.Path, o.Rule)
						}
					}
				}
			}
		}},
		{"an empty DT_NEEDED is the program", func(s *stage) {
			s.put("a/liba.so.1", lib("liba.so.1").Needs(""))
			s.put("p", prog("", "liba.so.1").With(elf.DT_RUNPATH, "~/a"))
			l := s.stops("p", "")
			if len(l.Missing()) != 0 || !l.Main.Uses[0].Again || l.Main.Uses[0].To != l.Main {
				s.Errorf("%+v", l.Main.Uses)
			}
			if out, ok := s.trace("p"); ok && strings.Contains(out, "not found") {
				s.Errorf("the real loader: %s", out)
			}
		}},
		{"an auxiliary library's names are compared before those of the one that names it", func(s *stage) {
			s.put("a/libf.so", lib("libf.so").With(elf.DT_RPATH, "~/b").With(elf.DT_AUXILIARY, "libaux.so"))
			s.put("b/libaux.so", lib("libf.so").With(elf.DT_AUXILIARY, "libf.so")) // itself: no circle
			s.put("c/libuser.so", lib("libuser.so").Needs("libf.so"))
			s.put("p", prog("libf.so", "libuser.so").With(elf.DT_RUNPATH, "~/a:~/c"))
			s.want("p", "libaux.so", "~/b/libaux.so", ByRPath)
			l := s.load("p")
			if l.Err != "" || len(l.Missing()) != 0 {
				s.Errorf("%q, %d missing", l.Err, len(l.Missing()))
			}
			for _, o := range l.Objects {
				if o.Name == "libuser.so" && (len(o.Uses) != 1 || o.Uses[0].To.Path != s.path("~/b/libaux.so")) {
					s.Errorf("libuser.so gets %s", o.Uses[0].To.Path)
				}
			}
		}},
		{"relative relocations want a version of libc only of a file that needs versions", func(s *stage) {
			needs := lib("libr.so.1").Needs("libc.so.6")
			needs.RelR, needs.Defines = true, []string{"V_1"}
			s.put("a/libr.so.1", needs)
			s.put("p", prog("libr.so.1").With(elf.DT_RUNPATH, "~/a"))
			s.want("p", "libr.so.1", "~/a/libr.so.1", ByRunPath)
			if l := s.load("p"); l.Err != "" {
				s.Errorf("%q", l.Err)
			}
			if out, ok := s.trace("p"); ok && strings.Contains(out, "DT_RELR") {
				s.Errorf("the real loader: %s", out)
			}
		}},
		{"the vDSO answers to its name, whatever a run path has", func(s *stage) {
			s.put("a/linux-vdso.so.1", lib("linux-vdso.so.1"))
			s.put("p", prog("linux-vdso.so.1").With(elf.DT_RUNPATH, "~/a"))
			s.want("p", "linux-vdso.so.1", "linux-vdso.so.1", ByKernel)
			s.put("q", prog("linux-vdso.so.1"))
			s.want("q", "linux-vdso.so.1", "linux-vdso.so.1", ByKernel)
			// Not so by a path, nor by the name of another machine's.
			s.put("r", prog("~/a/linux-vdso.so.1"))
			s.want("r", "~/a/linux-vdso.so.1", "~/a/linux-vdso.so.1", ByPath)
			s.put("a/linux-gate.so.1", lib("linux-gate.so.1"))
			s.put("t", prog("linux-gate.so.1").With(elf.DT_RUNPATH, "~/a"))
			s.want("t", "linux-gate.so.1", "~/a/linux-gate.so.1", ByRunPath)
			s.o.Preload = "linux-vdso.so.1"
			s.put("u", prog("linux-gate.so.1").With(elf.DT_RUNPATH, "~/a"))
			if l := s.load("u"); l.Err != "" || len(l.Missing()) != 0 || l.Objects[1].Rule != ByKernel {
				s.Errorf("preloaded: %q, %s", l.Err, l.Objects[1].Rule)
			}
		}},
		{"a token without a value in DT_NEEDED stops the load", func(s *stage) {
			s.noReal = true
			p := tinyelf.Object{Machine: elf.EM_RISCV, EFlags: 5, Interp: "/lib/ld-linux-riscv64-lp64d.so.1"}
			s.put("p", p.Needs("/x/$PLATFORM/liba.so.1"))
			s.stops("p", "/x/$PLATFORM/liba.so.1: empty dynamic string token substitution")
		}},
		{"a token in DT_NEEDED stops a set-user-ID program", func(s *stage) {
			s.noReal, s.setID = true, true
			s.put("a/liba.so.1", lib("liba.so.1"))
			s.put("p", prog("$ORIGIN/a/liba.so.1"))
			s.stops("p", "$ORIGIN/a/liba.so.1: DST not allowed in SUID/SGID programs")
		}},
		{"what a set-user-ID program ignores is among the places tried", func(s *stage) {
			s.noReal, s.setID = true, true
			s.put("a/liba.so.1", lib("liba.so.1"))
			s.put("p", prog("liba.so.1").With(elf.DT_RUNPATH, "$ORIGIN/a"))
			o := s.load("p").Objects[1]
			if len(o.Tried) == 0 || o.Tried[0].Entry != "$ORIGIN/a" || !strings.HasPrefix(o.Tried[0].Why, "ignored: in a set-user-ID program") {
				s.Errorf("tried %+v", o.Tried)
			}
		}},
		{"auditing modules are found through the program's run path", func(s *stage) {
			s.put("a/libmodule.so.1", lib("libmodule.so.1").Needs("libdep.so.1").With(elf.DT_RUNPATH, "~/a"))
			s.put("a/libdep.so.1", lib("libdep.so.1"))
			s.put("a/libx.so.1", lib("libx.so.1"))
			for _, c := range []struct {
				p    tinyelf.Object
				want string
			}{
				{prog("libx.so.1").With(elf.DT_RUNPATH, "~/a").With(dtAudit, "libmodule.so.1"), "~/a/libmodule.so.1"},
				{prog("libx.so.1").With(elf.DT_RUNPATH, "~/a").With(dtAudit, "libnone.so.1"), ""},
				{prog("libx.so.1").With(elf.DT_RPATH, "~/a").With(dtAudit, "libmodule.so.1"), "~/a/libmodule.so.1"},
				{prog("libx.so.1").With(elf.DT_RUNPATH, "~/a").With(dtDepAudit, "~/a/libmodule.so.1"), "~/a/libmodule.so.1"},
			} {
				s.put("p", c.p)
				l := s.stops("p", "")
				if l.Interp.Version < 32 {
					if out, _ := s.trace("p"); len(l.Audits) != 0 || strings.Contains(out, "cannot open") {
						s.Errorf("%d modules, and the real loader: %s", len(l.Audits), out)
					}
					continue
				}
				if len(l.Audits) != 1 || l.Audits[0].Main.Path != s.path(c.want) || !l.Audits[0].Main.Found() != (c.want == "") {
					s.Errorf("%+v", l.Audits[0].Main)
				}
				out, ok := s.trace("p")
				if missing := strings.Contains(out, "cannot open shared object file"); ok && missing != (c.want == "") {
					s.Errorf("the real loader: %s", out)
				}
				if c.want != "" && (len(l.Audits[0].Objects) != 2 || l.Audits[0].Objects[1].Path != s.dir+"/a/libdep.so.1") {
					s.Errorf("%d objects", len(l.Audits[0].Objects))
				}
			}
		}},
		{"the program's run path counts for what auditing modules need, behind their own DT_RPATH", func(s *stage) {
			s.put("b/libmodule.so.1", lib("libmodule.so.1").Needs("libdep.so.1", "libown.so.1").With(elf.DT_RPATH, "~/b"))
			s.put("a/libdep.so.1", lib("libdep.so.1"))
			s.put("a/libown.so.1", lib("libown.so.1"))
			s.put("b/libown.so.1", lib("libown.so.1"))
			for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
				s.put("p", prog().With(tag, "~/a").With(dtAudit, "~/b/libmodule.so.1"))
				l := s.stops("p", "")
				if l.Interp.Version < 32 {
					continue
				}
				var paths []string
				for _, o := range l.Audits[0].Objects {
					paths = append(paths, strings.TrimPrefix(o.Path, s.dir))
				}
				if got := strings.Join(paths, " "); got != "/b/libmodule.so.1 /a/libdep.so.1 /b/libown.so.1" {
					s.Errorf("%v: %s", tag, got)
				}
				if out, ok := s.trace("p"); ok && strings.Contains(out, "cannot open shared object file") {
					s.Errorf("%v: the real loader: %s", tag, out)
				}
			}
		}},
		{"a marker for a newer processor stops the load", func(s *stage) {
			s.noReal = true // tests/loader asks it, under qemu
			a := lib("liba.so.1")
			a.ISA = 7
			s.put("lib64/ld.so", tinyelf.Object{Data: "release version 2.33"}.With(elf.DT_SONAME, "ld.so"))
			s.put("a/liba.so.1", a)
			s.put("p", tinyelf.Object{Interp: s.dir + "/lib64/ld.so"}.Needs("liba.so.1").With(elf.DT_RUNPATH, "~/a"))
			for cpu, why := range map[string]string{"x86-64-v3": "", "x86-64-v4": "",
				"x86-64-v2": "~/a/liba.so.1: CPU ISA level is lower than required (x86-64-v3)", "baseline": "~/a/liba.so.1: CPU ISA level is lower than required (x86-64-v3)"} {
				s.o.CPU = cpu
				s.stops("p", why)
			}
		}},
		{"a program from a Nix store uses neither /etc/ld.so.cache nor /lib", func(s *stage) {
			const glibc = "/nix/store/0123456789abcdfghijklmnpqrsvwxyz-glibc-2.40"
			s.o.Root = s.dir
			s.put("lib/liba.so.1", lib("liba.so.1"))
			s.put("lib64/liba.so.1", lib("liba.so.1"))
			s.put("usr/lib/liba.so.1", lib("liba.so.1"))
			s.raw("etc/ld.so.cache", cacheOf("liba.so.1", "/usr/lib/liba.so.1"))
			s.put("p", tinyelf.Object{Interp: glibc + "/lib/ld-linux-x86-64.so.2"}.Needs("liba.so.1", "libb.so.1"))
			// nixpkgs' loader says so itself: these are its constants.
			ld := lib("ld-linux-x86-64.so.2")
			ld.Data = "\x00" + glibc + "/etc/ld.so.cache\x00" + glibc + "/lib/\x00/etc/ld-nix.so.preload\x00stable release version 2.40.\x00"
			s.put(glibc[1:]+"/lib/ld-linux-x86-64.so.2", ld)
			s.put(glibc[1:]+"/lib/libb.so.1", lib("libb.so.1"))
			s.root("p", "liba.so.1", "", NotFound)
			s.root("p", "libb.so.1", glibc+"/lib/libb.so.1", ByDefault)
		}},
		{"default directories, $LIB and the cache are constants of the loader's file", func(s *stage) {
			prog := func(needed ...string) tinyelf.Object {
				return tinyelf.Object{Interp: "/lib64/ld-linux-x86-64.so.2"}.Needs(needed...)
			}
			s.o.Root = s.dir
			ld := lib("ld-linux-x86-64.so.2")
			ld.Data = "\x00/sw/etc/ld.so.cache\x00/usr/lib/sw/\x00/sw/lib/\x00stable release version 2.36.\x00"
			s.put("lib64/ld-linux-x86-64.so.2", ld)
			s.put("usr/lib/sw/liba.so.1", lib("liba.so.1"))
			s.put("lib/liba.so.1", lib("liba.so.1"))
			s.put("sw/lib/libb.so.1", lib("libb.so.1"))
			s.put("opt/libd.so.1", lib("libd.so.1"))
			s.put("x/lib/sw/libe.so.1", lib("libe.so.1"))
			s.raw("sw/etc/ld.so.cache", cacheOf("libd.so.1", "/opt/libd.so.1"))
			s.put("p", prog("liba.so.1", "libb.so.1", "libd.so.1", "libe.so.1").With(elf.DT_RUNPATH, "/x/$LIB"))
			s.root("p", "liba.so.1", "/usr/lib/sw/liba.so.1", ByDefault)
			s.root("p", "libb.so.1", "/sw/lib/libb.so.1", ByDefault)
			s.root("p", "libd.so.1", "/opt/libd.so.1", ByCache)
			s.root("p", "libe.so.1", "/x/lib/sw/libe.so.1", ByRunPath)
			if v := s.load("p").Interp.Version; v != 36 {
				s.Errorf("version %v", v)
			}
		}},
		{"an absolute link stays below the root", func(s *stage) {
			s.o.Root = s.dir
			s.put("real/liba.so.1", lib("liba.so.1"))
			s.link("/real", "a")
			s.link("../../../../../../../../../../real", "b")
			s.put("p", prog("liba.so.1").With(elf.DT_RUNPATH, "/a"))
			s.put("q", prog("liba.so.1").With(elf.DT_RUNPATH, "/b"))
			s.root("p", "liba.so.1", "/a/liba.so.1", ByRunPath)
			s.root("q", "liba.so.1", "/b/liba.so.1", ByRunPath)
		}},
	} {
		t.Run(c.rule, func(t *testing.T) { c.test(newStage(t)) })
	}
}

// realRoot puts the machine's own loader below the root, for root to ask.
func (s *stage) realRoot() {
	s.o.Root = s.dir
	b, err := os.ReadFile(realLoader)
	if err != nil || runtime.GOARCH != "amd64" {
		s.Skip("no ", realLoader)
	}
	s.raw(realLoader, string(b))
	s.isReal = true
}

// ldconfig makes the cache below the root.
func (s *stage) ldconfig(dirs ...string) {
	s.Helper()
	s.raw("etc/ld.so.conf", "")
	if out, err := exec.Command("/sbin/ldconfig", append([]string{"-X", "-r", s.dir}, dirs...)...).CombinedOutput(); err != nil {
		s.Skipf("ldconfig -r: %v %s", err, out)
	}
}

// root is want below a root, where the real loader can look only if it is there
// and the test may change its root.
func (s *stage) root(program, name, path string, rule Rule) {
	s.Helper()
	s.noReal = true
	if s.isReal && os.Geteuid() == 0 {
		cmd := exec.Command("/" + program)
		cmd.Dir, cmd.Env = "/", []string{"LD_TRACE_LOADED_OBJECTS=1", "LC_ALL=C"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: s.dir}
		out, _ := cmd.CombinedOutput()
		if real := " => " + cmp.Or(path, "not found"); strings.Contains(string(out), "\t"+name) && !strings.Contains(string(out), "\t"+name+real) {
			s.Errorf("the real loader says %s, want %s%s", out, name, real)
		} else if !strings.Contains(string(out), name) {
			s.Errorf("the real loader says nothing of %s: %s", name, out)
		}
	}
	for _, o := range s.load(program).Objects {
		if o.Name == name {
			if o.Path != path || o.Rule != rule {
				s.Errorf("%s is %q (%s), want %q (%s)", name, o.Path, o.Rule, path, rule)
			}
			return
		}
	}
	s.Errorf("nothing asks for %s", name)
}

// cacheOf makes a loader cache of one entry for x86-64 (sysdeps/generic/dl-cache.h).
func cacheOf(soname, path string) string {
	const magic = "glibc-ld.so.cache1.1"
	b := make([]byte, 48+24)
	copy(b, magic)
	text := soname + "\x00" + path + "\x00"
	put := func(at int, v uint32) {
		b[at], b[at+1], b[at+2], b[at+3] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
	}
	put(20, 1)
	put(24, uint32(len(text)))
	b[28] = 2 // little endian
	put(48, 0x303)
	put(52, 72)
	put(56, uint32(72+len(soname)+1))
	return string(b) + text
}

// One test for each rule of musl's loader.
func TestMusl(t *testing.T) {
	const musl = "/lib/ld-musl-x86_64.so.1"
	prog := func(needed ...string) tinyelf.Object { return tinyelf.Object{Interp: musl}.Needs(needed...) }
	for _, c := range []struct {
		rule string
		test func(*stage)
	}{
		{"DT_RUNPATH is inherited", func(s *stage) {
			s.put("a/liba.so", lib("liba.so").Needs("libb.so"))
			s.put("b/libb.so", lib("libb.so"))
			s.put("p", prog("liba.so").With(elf.DT_RUNPATH, "~/a:~/b"))
			s.want("p", "libb.so", "~/b/libb.so", ByRunPath)
		}},
		{"a link that leads to itself ends the search, a path that is too long does not", func(s *stage) {
			s.noReal = true
			s.put("b/liba.so", lib("liba.so"))
			s.put("p", prog("liba.so").With(elf.DT_RUNPATH, "~/"+strings.Repeat("d/", 256)+":~/b"))
			s.want("p", "liba.so", "~/b/liba.so", ByRunPath)
			s.link("liba.so", "a/liba.so")
			s.o.LibraryPath = "~/a"
			if l := s.load("p"); len(l.Missing()) != 1 {
				s.Errorf("%+v", l.Objects[1])
			}
		}},
		{"a path has at most 511 bytes", func(s *stage) {
			s.o.Root, s.noReal = s.dir, true
			s.put("a/liba.so", lib("liba.so"))
			for length, want := range map[int]Rule{511: ByRunPath, 512: NotFound} {
				dir := strings.Repeat("/", length-len("a/liba.so")) + "a"
				s.put("p", prog("liba.so").With(elf.DT_RUNPATH, dir))
				if o := s.load("p").Objects[1]; o.Rule != want {
					s.Errorf("%d bytes: %s", length, o.Rule)
				}
			}
		}},
		{"LD_LIBRARY_PATH comes before DT_RPATH too", func(s *stage) {
			s.put("a/liba.so", lib("liba.so"))
			s.put("e/liba.so", lib("liba.so"))
			s.put("p", prog("liba.so").With(elf.DT_RPATH, "~/a"))
			s.o.LibraryPath = "~/e"
			s.want("p", "liba.so", "~/e/liba.so", ByEnv)
		}},
		{"an empty entry is nothing", func(s *stage) {
			s.put("liba.so", lib("liba.so"))
			s.put("p", prog("liba.so").With(elf.DT_RUNPATH, "/none:"))
			s.want("p", "liba.so", "", NotFound)
		}},
		{"a newline separates entries too", func(s *stage) {
			s.put("a/liba.so", lib("liba.so"))
			s.put("p", prog("liba.so").With(elf.DT_RUNPATH, "~/none\n~/a"))
			s.want("p", "liba.so", "~/a/liba.so", ByRunPath)
		}},
		{"a list with $LIB is ignored whole", func(s *stage) {
			s.put("a/liba.so", lib("liba.so"))
			s.put("p", prog("liba.so").With(elf.DT_RUNPATH, "~/a:~/$LIB"))
			s.want("p", "liba.so", "", NotFound)
		}},
		{"a library answers to its file name, not to its soname", func(s *stage) {
			s.put("a/liba.so", lib("libz9.so"))
			s.put("a/libz9.so", lib("libz9.so"))
			s.put("p", prog("liba.so", "libz9.so").With(elf.DT_RUNPATH, "~/a"))
			s.want("p", "libz9.so", "~/a/libz9.so", ByRunPath)
		}},
		{"libc, libm, libpthread are the loader", func(s *stage) {
			s.put("a/libm.so.6", lib("libm.so.6"))
			s.put("p", prog("libm.so.6").With(elf.DT_RUNPATH, "~/a"))
			if o := s.load("p").Objects[1]; o.Rule != ByLoader || o.Path != musl {
				s.Errorf("%s (%s)", o.Path, o.Rule)
			}
		}},
		{"the path file replaces the default directories", func(s *stage) {
			s.o.Root = s.dir
			s.put("opt/liba.so", lib("liba.so"))
			s.put("usr/lib/liba.so", lib("liba.so"))
			s.put("p", prog("liba.so"))
			s.root("p", "liba.so", "/usr/lib/liba.so", ByDefault)
			s.raw("etc/ld-musl-x86_64.path", "/none\n/opt\n")
			s.root("p", "liba.so", "/opt/liba.so", ByPathFile)
		}},
		{"programs, and files for another OS files.ABI, are libraries too", func(s *stage) {
			pie, abi, fixed, same := lib("liba.so"), lib("libb.so"), lib("libd.so"), lib("libe.so")
			pie.Flags1 = elf.DF_1_PIE
			abi.OSABI = elf.ELFOSABI_FREEBSD
			fixed.Type, fixed.Base = elf.ET_EXEC, 0x10000000
			same.Type, same.Base = elf.ET_EXEC, 0x10000000
			s.put("a/liba.so", pie)
			s.put("a/libb.so", abi)
			s.put("a/libd.so", fixed)
			s.put("a/libe.so", same)
			s.put("p", prog("liba.so", "libb.so", "libd.so", "libe.so").With(elf.DT_RUNPATH, "~/a"))
			l := s.load("p")
			for i, why := range []string{"", "", "", "its addresses, from 0x10000000, are taken by ~/a/libd.so"} {
				if o := l.Objects[i+1]; o.Err != s.path(why) {
					s.Errorf("%s: %q, want %q", o.Name, o.Err, s.path(why))
				}
			}
			if _, err := os.Stat(musl); err != nil {
				return
			}
			out, _ := exec.Command(musl, "--list", s.dir+"/p").CombinedOutput()
			for name, there := range map[string]bool{"liba.so": true, "libb.so": true, "libd.so": true, "libe.so": false} {
				if strings.Contains(string(out), "\t"+name+" => "+s.dir+"/a/"+name) != there {
					s.Errorf("musl's loader, %s: %s", name, out)
				}
			}
		}},
		{"hardware directories are not searched", func(s *stage) {
			s.put("a/glibc-hwcaps/x86-64-v2/liba.so", lib("liba.so"))
			s.put("p", prog("liba.so").With(elf.DT_RUNPATH, "~/a"))
			s.want("p", "liba.so", "", NotFound)
		}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			s := newStage(t)
			s.noReal = true // tests/loader asks musl's ldd
			c.test(s)
		})
	}
}

// A program whose interpreter is not there does not start, whatever its libraries are.
func TestMissingInterpreterStops(t *testing.T) {
	s := newStage(t)
	s.put("p", tinyelf.Object{Interp: s.dir + "/none/ld.so"})
	s.put("q", prog())
	s.put("lib.so", lib("lib.so"))
	if got, want := s.load("p").Stops(), "its interpreter "+s.dir+"/none/ld.so does not exist"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	for _, p := range []string{"q", "lib.so"} {
		if got := s.load(p).Stops(); got != "" {
			t.Errorf("%s: %q", p, got)
		}
	}
}

// Where the working directory was removed, absolute paths lead where they lead; from it,
// nothing is found.
func TestRemovedWorkingDirectory(t *testing.T) {
	s := newStage(t)
	s.put("p", prog("liba.so").With(elf.DT_RUNPATH, "gone:.:~/a"))
	s.put("a/liba.so", lib("liba.so"))
	gone := s.dir + "/gone"
	os.Mkdir(gone, 0o755)
	t.Chdir(gone)
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	l, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	load, err := l.Load(s.dir + "/p")
	if err != nil {
		t.Fatal(err)
	}
	if path := load.Objects[1].Path; path != s.dir+"/a/liba.so" {
		t.Errorf("liba.so is %q", path)
	}
	if _, err := l.Load(l.Path("p")); err == nil || err.Error() != "does not exist" {
		t.Errorf("p in a directory that was removed: %v", err)
	}
}

// Of a file whose own libraries alone are looked for, another one of them may bring what its versions are of.
func TestDirectLeavesVersionsOfOthersAlone(t *testing.T) {
	s := newStage(t)
	s.put("a/liba.so.1", lib("liba.so.1").Needs("libb.so.1"))
	p := prog("liba.so.1").With(elf.DT_RPATH, s.path("~/a"))
	p.Requires = []tinyelf.Requirement{{Library: "libb.so.1", Version: "V_1"}}
	s.put("p", p)
	l, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	load, err := l.Direct(s.path("~/p"), "")
	if err != nil || load.Err != "" || len(load.Missing()) != 0 {
		t.Errorf("%v, %q, missing %v", err, load.Err, load.Missing())
	}
}
