package audit

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/tests/tinyelf"
)

// Of two copies of which only the second does for the file, no remedy takes that one out: each is followed on a view first.
func TestRemedyKeepsTheWorkingCopy(t *testing.T) {
	f := newFolder(t)
	old, newer := lib("libv.so", "old"), lib("libv.so", "new")
	old.Defines, newer.Defines = []string{"V1"}, []string{"V1", "V2"}
	f.put("old/libv.so", old)
	f.put("new/libv.so", newer)
	p := needs("~/old:~/new", "libv.so")
	p.Interp, p.Requires = loader64, []tinyelf.Requirement{{Library: "libv.so", Version: "V2"}}
	f.put("p", p)
	commands := 0
	for _, found := range [][]finding.Finding{f.audit(loader.Options{}, f.dir+"/p").of(f.dir + "/p"), f.ambiguity("p")} {
		for _, x := range found {
			if x.Command == nil {
				continue
			}
			commands++
			if slices.Contains(x.Command, f.dir+"/new") && !slices.ContainsFunc(x.Command, func(w string) bool { return strings.HasPrefix(w, f.dir+"/old=") }) {
				t.Errorf("%s: %s", x.ID, x.Whole())
			}
		}
	}
	if commands < 2 {
		t.Errorf("%d commands", commands)
	}
}

// Nor where both have one version of symbols, and the second alone a function that is called.
func TestRemedyKeepsTheCopyWithTheFunction(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip(err)
	}
	f := newFolder(t)
	os.WriteFile(f.dir+"/map", []byte("V1 { global: *; };\n"), 0o644)
	for name, source := range map[string]string{"old": "int f(void){return 0;}", "new": "int f(void){return 0;}int g(void){return 0;}"} {
		f.build(name+"/libv.so.1", source, "-shared", "-fPIC", "-Wl,-soname,libv.so.1,--version-script="+f.dir+"/map")
	}
	f.build("p", "int f(void);int g(void);int main(void){return f()+g();}", f.dir+"/new/libv.so.1", "-Wl,-z,now,-rpath,"+f.dir+"/old:"+f.dir+"/new")
	found := f.ambiguity("p")
	i := slices.IndexFunc(found, func(x finding.Finding) bool { return x.ID == finding.Ambiguous })
	if i < 0 || strings.Join(found[i].Command, " ") != "runpath edit --remove-entry "+f.dir+"/old "+f.dir+"/p" {
		t.Errorf("%+v", found)
	}
}

// glibc's own libraries go together with the loader: a directory of another libc.so.6 is no remedy.
func TestNoOtherLibCIsPutFirst(t *testing.T) {
	f := newFolder(t)
	c := lib("libc.so.6", "")
	c.Defines = []string{"GLIBC_2.2.5"}
	f.put("c/libc.so.6", c)
	f.put("d/libc.so.6", lib("libc.so.6", "other"))
	p := needs("~/c:~/d", "libc.so.6")
	p.Interp, p.Requires = loader64, []tinyelf.Requirement{{Library: "libc.so.6", Version: "GLIBC_2.99"}}
	f.put("p", p)
	for _, x := range f.audit(loader.Options{}, f.dir+"/p").of(f.dir + "/p") {
		if x.ID == finding.MissingVersion && strings.Contains(x.Whole(), "newer one first") {
			t.Error(x.Whole())
		}
	}
}

// A stub that is named by its path is asked for by its name and found in the driver link, in one edit.
func TestStubByItsPath(t *testing.T) {
	f := newFolder(t)
	f.put("stubs/libcuda.so.1", lib("libcuda.so.1", ""))
	p := needs("", f.dir+"/stubs/libcuda.so.1")
	p.Interp = loader64
	f.put("p", p)
	for _, x := range f.audit(loader.Options{}, f.dir+"/p").of(f.dir + "/p") {
		if x.ID == finding.StubLoaded && (!slices.Contains(x.Command, "--replace-needed") || !slices.Contains(x.Command, "/run/opengl-driver/lib")) {
			t.Errorf("%q", x.Command)
		}
	}
}

// What a program of another ABI loads is not there before, and what a program's DT_RPATH finds for a plugin is.
func TestWhatIsThereBeforeAPlugin(t *testing.T) {
	f := newFolder(t)
	small := lib("libdep.so.1", "")
	small.Class, small.Machine = elf.ELFCLASS32, elf.EM_386
	f.put("x/libdep.so.1", small)
	p := needs("$ORIGIN/x", "libdep.so.1")
	p.Class, p.Machine, p.Interp = elf.ELFCLASS32, elf.EM_386, "/lib/ld-linux.so.2"
	f.put("p32", p)
	f.put("plug/plug.so", lib("plug.so", "").Needs("libdep.so.1"))
	f.want(f.audit(loader.Options{}, f.dir).of(f.dir+"/plug/plug.so"), "error unresolved-library")

	g := newFolder(t)
	g.put("x/libdep.so.1", lib("libdep.so.1", ""))
	g.put("plug/libplug.so", lib("libplug.so", "").Needs("libdep.so.1"))
	host := tinyelf.Object{Stack: elf.PF_R | elf.PF_W, Interp: loader64, Data: "\x00libplug.so\x00"}.With(elf.DT_RPATH, "$ORIGIN/plug:$ORIGIN/x")
	g.put("p", host)
	g.want(g.audit(loader.Options{Opened: true}, g.dir).of(g.dir + "/plug/libplug.so"))
}

// Two toolkits in one process are a warning of the program, and a part that cuDNN opens by its name and does not find an error.
func TestToolkitsInOneProcess(t *testing.T) {
	f := newFolder(t)
	f.put("lib/libcudart.so.12", lib("libcudart.so.12", ""))
	f.put("lib/libcudart.so.13", lib("libcudart.so.13", ""))
	f.put("lib/libold.so", lib("libold.so", "").Needs("libcudart.so.12").With(elf.DT_RUNPATH, "$ORIGIN"))
	p := needs("$ORIGIN/lib", "libold.so", "libcudart.so.13")
	p.Interp = loader64
	f.put("p", p)
	f.want(f.audit(loader.Options{}, f.dir).of(f.dir+"/p"), "warning two-cuda-majors")

	g := newFolder(t)
	g.put("lib/libcudnn.so.9", lib("libcudnn.so.9", "\x00libcudnn_engines_precompiled.so.9\x00libcudart.so.12\x00").With(elf.DT_RUNPATH, "$ORIGIN"))
	g.want(g.audit(loader.Options{Opened: true}, g.dir).of(g.dir+"/lib/libcudnn.so.9"), "warning opened-library-absent", "note opened-library-absent")
	// A part that another one needs, which is there, is no one of several engines.
	g.put("lib/libcudnn.so.9", lib("libcudnn.so.9", "\x00libcudnn_engines_precompiled.so.9\x00libcudnn_ops.so.9\x00libcudart.so.12\x00").With(elf.DT_RUNPATH, "$ORIGIN"))
	ops := lib("libcudnn_ops.so.9", "").Needs("libcudnn_engines_precompiled.so.9")
	g.put("lib/libcudnn_ops.so.9", ops)
	g.want(g.audit(loader.Options{Opened: true}, g.dir).of(g.dir+"/lib/libcudnn.so.9"), "error opened-library-absent", "note opened-library-absent")
	g.put("lib/libcudnn_ops.so.9", lib("libcudnn_ops.so.9", ""))
	by := needs("$ORIGIN/lib", "libcudnn_ops.so.9") // a program that opens the parts by itself may do without
	by.Interp, by.Data = loader64, "\x00libcudnn_engines_precompiled.so.9\x00"
	g.put("p", by)
	g.want(g.audit(loader.Options{Opened: true}, g.dir).of(g.dir+"/p"), "warning opened-library-absent")
	g.put("lib/libcudnn_engines_precompiled.so.9", lib("libcudnn_engines_precompiled.so.9", ""))
	g.want(g.audit(loader.Options{Opened: true}, g.dir).of(g.dir + "/p"))
	g.want(g.audit(loader.Options{Opened: true}, g.dir).of(g.dir+"/lib/libcudnn.so.9"), "note opened-library-absent")
}

// A library that calls the driver and needs none of its libraries is told so, by audit and noRunpathAmbiguity: an error where all is
// bound at once. cuFileOpen is not the driver's.
func TestSymbolsOfTheDriver(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip(err)
	}
	f := newFolder(t)
	build := func(name, source string, flags ...string) string {
		at := filepath.Join(f.dir, name)
		cmd := exec.Command("gcc", append([]string{"-shared", "-fPIC", "-xc", "-", "-o", at, "-Wl,-rpath,/run/opengl-driver/lib"}, flags...)...)
		cmd.Stdin = strings.NewReader(source)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("%v: %s", err, out)
		}
		return name
	}
	const calls = "extern int cuInit(unsigned),cuMemCreate(void);int b(void){return cuInit(0)+cuMemCreate();}"
	for _, c := range []struct {
		name, source, want string
		flags              []string
	}{
		{"now.so", calls, "error", []string{"-Wl,-z,now"}},
		{"lazy.so", calls, "warning", []string{"-Wl,-z,lazy"}},
		{"module.so", calls + "int PyInit_m(void){return 0;}", "error", []string{"-Wl,-z,lazy"}},
		{"other.so", "extern int cuFileOpen(void);int b(void){return Py_Main()+__gmon();}", "", []string{"-Wl,-z,lazy"}},
	} {
		name := build(c.name, c.source, c.flags...)
		for who, found := range map[string][]finding.Finding{"audit": f.audit(loader.Options{}, f.dir+"/"+name).of(f.dir + "/" + name), "noRunpathAmbiguity": f.ambiguity(name)} {
			got, command := "", ""
			for _, x := range found {
				if x.ID == finding.UndefinedSymbol {
					got, command = string(x.Severity), strings.Join(x.Command, " ")
				}
			}
			if got != c.want || got != "" && command != "runpath edit --add-needed libcuda.so.1 "+f.dir+"/"+name {
				t.Errorf("%s: %s says %q, %q", name, who, got, command)
			}
		}
	}
}

// Where the library that has a function is loaded, it is too old; a link would change nothing.
func TestLibraryThatLacksAFunction(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct{ soname, old, new, says string }{
		{"libcuda.so.1", "cuInit", "cuMemCreate", "the libcuda.so.1 that is loaded, DIR/old/libcuda.so.1, does not define it: it is too old"},
		{"libcudart.so.12", "cudaMalloc", "cudaLibraryLoadData", "the libcudart.so.12 that is loaded, DIR/old/libcudart.so.12, does not define it: it is too old"},
	} {
		f := newFolder(t)
		has := "int " + c.old + "(void){return 0;}"
		f.build("old/"+c.soname, has, "-shared", "-fPIC", "-Wl,-soname,"+c.soname)
		f.build("new/"+c.soname, has+"int "+c.new+"(void){return 0;}", "-shared", "-fPIC", "-Wl,-soname,"+c.soname)
		for _, bound := range []string{"now", "lazy"} {
			f.build("p", "int "+c.new+"(void);int main(int n,char**v){return n>9?"+c.new+"():0;}", f.dir+"/new/"+c.soname, "-Wl,-rpath,$ORIGIN/old", "-Wl,-z,"+bound)
			r := f.audit(loader.Options{}, f.dir+"/p").of(f.dir + "/p")
			i := slices.IndexFunc(r, func(x finding.Finding) bool { return x.ID == finding.UndefinedSymbol })
			if i < 0 || !strings.Contains(r[i].Message, strings.ReplaceAll(c.says, "DIR", f.dir)) || r[i].Command != nil || strings.Contains(r[i].Message, "not needed") {
				t.Errorf("%s, %s: %+v", c.soname, bound, r)
			}
		}
	}
}

// A name that is only the end of a path is not searched for, as far as is known: different files of it are a note.
func TestNameThatIsTheEndOfAPath(t *testing.T) {
	for data, want := range map[string]string{
		"\x00/opt/libx.so.1\x00":                  "note ambiguous-library",
		"\x00/opt/libx.so.1\x00\x00libx.so.1\x00": "error ambiguous-library",
	} {
		f := newFolder(t)
		f.put("a/libx.so.1", lib("libx.so.1", "a"))
		f.put("b/libx.so.1", lib("libx.so.1", "b"))
		p := needs("~/a:~/b")
		p.Interp, p.Data = loader64, data
		f.put("p", p)
		found := f.ambiguity("p")
		if len(found) != 1 || string(found[0].Severity)+" "+found[0].ID != want {
			t.Errorf("%q: %+v", data, found)
		}
	}
}

// What LD_LIBRARY_PATH decides beside the driver is one line, where the run path has another file.
func TestWhatTheVariableDecides(t *testing.T) {
	f := newFolder(t)
	f.put("lib/libfoo.so.1", lib("libfoo.so.1", "ours"))
	f.put("opt/libfoo.so.1", lib("libfoo.so.1", "theirs"))
	f.put("opt/libcuda.so.1", lib("libcuda.so.1", ""))
	p := needs("$ORIGIN/lib", "libfoo.so.1", "libcuda.so.1")
	p.Interp = loader64
	f.put("p", p)
	env := loader.Options{Environment: loader.Environment{LibraryPath: f.dir + "/opt"}}
	found := f.audit(env, f.dir+"/p").of(f.dir + "/p")
	f.want(found, "warning decided-by-environment")
	f.put("opt/libfoo.so.1", lib("libfoo.so.1", "ours"))
	f.want(f.audit(env, f.dir+"/p").of(f.dir + "/p"))
}

// A program that opens what has no file, as the vDSO, is examined all the same.
func TestOpenedWithoutAFile(t *testing.T) {
	f := newFolder(t)
	p := tinyelf.Object{Stack: elf.PF_R | elf.PF_W, Interp: loader64, Data: "\x00linux-vdso.so.1\x00"}.Needs("libc.so.6")
	f.put("p", p)
	f.want(f.audit(loader.Options{Opened: true}, f.dir+"/p").of(f.dir + "/p"))
}
