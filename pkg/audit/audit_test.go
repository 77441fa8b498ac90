package audit

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/process"
	"cuda-runpath/tests/tinyelf"
)

// folder is a package to be audited.
type folder struct {
	*testing.T
	dir string
	Options
}

func newFolder(t *testing.T) *folder {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &folder{T: t, dir: dir}
}

func (f *folder) path(p string) string { return strings.ReplaceAll(p, "~", f.dir) }

func (f *folder) put(name string, o tinyelf.Object) string {
	f.Helper()
	for i := range o.Strings {
		o.Strings[i].Str = f.path(o.Strings[i].Str)
	}
	p := f.dir + "/" + name
	os.MkdirAll(filepath.Dir(p), 0o755)
	if err := os.WriteFile(p, o.Bytes(), 0o755); err != nil {
		f.Fatal(err)
	}
	return p
}

// lib makes a library; variant makes the contents of two of one name differ.
func lib(soname, variant string) tinyelf.Object {
	return tinyelf.Object{Data: variant, Stack: elf.PF_R | elf.PF_W}.With(elf.DT_SONAME, soname)
}

// build compiles a text of C.
func (f *folder) build(out, source string, flags ...string) {
	f.Helper()
	at := filepath.Join(f.dir, out)
	os.MkdirAll(filepath.Dir(at), 0o755)
	cmd := exec.Command("gcc", append([]string{"-xc", "-", "-xnone", "-o", at}, flags...)...)
	cmd.Stdin = strings.NewReader(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		f.Fatalf("%v: %s", err, out)
	}
}

func (f *folder) auditor(o loader.Options) *Audit {
	f.Helper()
	l, err := loader.New(o)
	if err != nil {
		f.Fatal(err)
	}
	f.Options.DriverLink, f.Options.Compat = f.path(f.Options.DriverLink), f.path(f.Options.Compat)
	return New(l, f.Options)
}

// ambiguity returns the findings of noRunpathAmbiguity for a file.
func (f *folder) ambiguity(name string) []finding.Finding {
	f.Helper()
	r := f.auditor(loader.Options{}).Ambiguity(f.dir + "/" + name)
	if r.Outcome != explain.Checked {
		f.Fatalf("%s: %s %s", name, r.Outcome, r.Reason)
	}
	return r.Findings
}

// want checks identifiers and severities.
func (f *folder) want(found []finding.Finding, want ...string) {
	f.Helper()
	got := []string{}
	for _, x := range found {
		got = append(got, string(x.Severity)+" "+x.ID)
		if x.Message == "" || x.Whole() == "" || !finding.Known(x.ID) {
			f.Errorf("finding %+v lacks a message, a fix or a rule", x)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		f.Errorf("found %q, want %q", got, want)
	}
}

func needs(runPath string, names ...string) tinyelf.Object {
	return tinyelf.Object{Stack: elf.PF_R | elf.PF_W}.Needs(names...).With(elf.DT_RUNPATH, runPath)
}

func TestNoRunpathAmbiguity(t *testing.T) {
	for _, c := range []struct {
		rule string
		test func(*folder)
	}{
		{"different files of a needed name are an error", func(f *folder) {
			f.put("p", needs("~/a:~/b", "liba.so.1"))
			found := f.ambiguity("p")
			f.want(found, "error ambiguous-library")
			c := found[0].Candidates
			if len(c) != 2 || c[0] != (finding.Candidate{Path: f.dir + "/a/liba.so.1", Position: 1, Wins: true}) || c[1] != (finding.Candidate{Path: f.dir + "/b/liba.so.1", Position: 2, Wins: false}) {
				f.Errorf("candidates: %+v", c)
			}
			for _, part := range []string{"liba.so.1", f.dir + "/a/liba.so.1 (entry 1)", f.dir + "/b/liba.so.1 (entry 2)", "at run time " + f.dir + "/a/liba.so.1 wins"} {
				if !strings.Contains(found[0].Message, part) {
					f.Errorf("message %q lacks %q", found[0].Message, part)
				}
			}
		}},
		{"a name that the file does not ask for is a warning", func(f *folder) {
			f.put("p", needs("~/a:~/b"))
			f.want(f.ambiguity("p"), "warning ambiguous-library")
		}},
		{"strict makes warnings errors", func(f *folder) {
			f.put("p", needs("~/a:~/b"))
			f.Strict = true
			f.want(f.ambiguity("p"), "error ambiguous-library")
		}},
		{"a name for dlopen in a constant is an error", func(f *folder) {
			p := needs("~/a:~/b")
			p.Data = "x\x00liba.so.1\x00"
			f.put("p", p)
			f.want(f.ambiguity("p"), "error ambiguous-library")
		}},
		{"a name in a .note.dlopen note is an error", func(f *folder) {
			p := needs("~/a:~/b")
			p.Dlopen = `[{"soname":["liba.so.1"],"priority":"suggested"}]`
			f.put("p", p)
			f.want(f.ambiguity("p"), "error ambiguous-library")
		}},
		{"with DT_RPATH the names of the whole load count", func(f *folder) {
			f.put("c/libc1.so", lib("libc1.so", "").Needs("liba.so.1"))
			f.put("p", tinyelf.Object{Stack: elf.PF_R | elf.PF_W}.Needs("libc1.so").With(elf.DT_RPATH, "~/c:~/a:~/b"))
			f.want(f.ambiguity("p"), "error ambiguous-library")
			// DT_RUNPATH is not searched for them.
			f.put("q", needs("~/c:~/a:~/b", "libc1.so"))
			f.want(f.ambiguity("q"), "warning ambiguous-library")
		}},
		{"ignored by soname and by pattern", func(f *folder) {
			f.put("p", needs("~/a:~/b", "liba.so.1"))
			for _, pattern := range []string{"liba.so.1", "liba*", "lib?.so.*"} {
				f.Ignore = []string{pattern}
				f.want(f.ambiguity("p"))
			}
			f.Ignore = []string{"libb*"}
			f.want(f.ambiguity("p"), "error ambiguous-library")
		}},
		{"the same file by a link, or by its contents, is no ambiguity", func(f *folder) {
			os.Mkdir(f.dir+"/l", 0o755)
			os.Symlink("../a/liba.so.1", f.dir+"/l/liba.so.1")
			os.Symlink("a", f.dir+"/a2")
			f.put("same/liba.so.1", lib("liba.so.1", "a"))
			f.put("p", needs("~/a:~/l:~/a2:~/same", "liba.so.1"))
			f.want(f.ambiguity("p"))
		}},
		{"files for another class or machine do not count", func(f *folder) {
			other := lib("liba.so.1", "")
			other.Machine = elf.EM_AARCH64
			f.put("arm/liba.so.1", other)
			other.Class, other.Machine = elf.ELFCLASS32, elf.EM_386
			f.put("i386/liba.so.1", other)
			os.MkdirAll(f.dir+"/text", 0o755)
			os.WriteFile(f.dir+"/text/liba.so.1", []byte("INPUT(liba.so)"), 0o644)
			f.put("p", needs("~/a:~/arm:~/i386:~/text", "liba.so.1"))
			f.want(f.ambiguity("p"))
		}},
		{"names for the linker are not reported", func(f *folder) {
			os.Symlink("liba.so.1", f.dir+"/a/liba.so")
			os.Symlink("liba.so.1", f.dir+"/b/liba.so")
			f.put("p", needs("~/a:~/b", "liba.so.1"))
			f.want(f.ambiguity("p"), "error ambiguous-library")
		}},
		{"compat before the driver link is no ambiguity", func(f *folder) {
			f.DriverLink = "~/driver"
			f.put("p", needs("~/compat:~/driver:~/none", "libcuda.so.1"))
			f.want(f.ambiguity("p"))
		}},
		{"the driver link before compat is an error", func(f *folder) {
			f.DriverLink = "~/driver"
			f.put("p", needs("~/driver:~/compat", "libcuda.so.1"))
			f.want(f.ambiguity("p"), "error driver-before-compat")
			f.put("q", needs("~/driver:~/none:~/compat", "libcuda.so.1"))
			f.want(f.ambiguity("q"), "error driver-before-compat")
		}},
		{"a compat directory of another name is known when it is told", func(f *folder) {
			f.DriverLink = "~/driver"
			f.put("newer/libcuda.so.1", lib("libcuda.so.1", "newer"))
			f.put("p", needs("~/newer:~/driver", "libcuda.so.1"))
			f.want(f.ambiguity("p"), "error ambiguous-library")
			f.Compat = "~/newer"
			f.want(f.ambiguity("p"))
		}},
		{"a driver library before an absent driver link is an error", func(f *folder) {
			f.DriverLink = "~/absent"
			f.put("vendored/libcuda.so.1", lib("libcuda.so.1", "vendored"))
			f.put("p", needs("~/vendored:~/absent", "libcuda.so.1"))
			f.want(f.ambiguity("p"), "error driver-shadowed")
			f.put("q", needs("~/absent:~/vendored", "libcuda.so.1"))
			f.want(f.ambiguity("q"))
		}},
		{"an empty entry is an error", func(f *folder) {
			for _, list := range []string{"~/a:", ":~/a", "~/a::~/c"} {
				f.put("p", needs(list, "liba.so.1"))
				f.want(f.ambiguity("p"), "error empty-entry")
			}
		}},
		{"a stub directory is an error", func(f *folder) {
			f.put("stubs/libcuda.so.1", lib("libcuda.so.1", "stub"))
			f.put("p", needs("~/stubs:~/driver", "libcuda.so.1"))
			found := f.ambiguity("p")
			f.want(found, "error stub-entry")
			if !strings.Contains(found[0].Message, "libcuda.so.1") {
				f.Errorf("message: %s", found[0].Message)
			}
			f.StubDirs.Patterns = []string{"placeholders"}
			f.put("q", needs("~/placeholders", "libcuda.so.1"))
			f.want(f.ambiguity("q"), "error stub-entry")
		}},
		{"glibc's own copy of libgcc_s.so.1 is no ambiguity", func(f *folder) {
			f.put("glibc/libgcc_s.so.1", lib("libgcc_s.so.1", "glibc's"))
			f.put("glibc/libc.so.6", lib("libc.so.6", ""))
			f.put("gcc/libgcc_s.so.1", lib("libgcc_s.so.1", "gcc's"))
			f.put("p", needs("~/glibc:~/gcc", "libgcc_s.so.1"))
			f.want(f.ambiguity("p"))
			f.put("gcc2/libgcc_s.so.1", lib("libgcc_s.so.1", "another gcc's"))
			f.put("q", needs("~/glibc:~/gcc:~/gcc2", "libgcc_s.so.1"))
			f.want(f.ambiguity("q"), "error ambiguous-library")
		}},
		{"$ORIGIN is the file's directory", func(f *folder) {
			f.put("bin/liba.so.1", lib("liba.so.1", "bin"))
			f.put("bin/p", needs("$ORIGIN:${ORIGIN}/../a", "liba.so.1"))
			f.want(f.ambiguity("bin/p"), "error ambiguous-library")
		}},
		{"a name that only a newer processor finds in the first directory", func(f *folder) {
			f.put("v/glibc-hwcaps/x86-64-v3/libv.so.1", lib("libv.so.1", "v3"))
			f.put("w/libv.so.1", lib("libv.so.1", "plain"))
			f.put("p", needs("~/v:~/w", "libv.so.1"))
			found := f.ambiguity("p")
			f.want(found, "error ambiguous-library")
			if c := found[0].Candidates; len(c) != 2 || c[0].Path != f.dir+"/v/glibc-hwcaps/x86-64-v3/libv.so.1" || c[1].Path != f.dir+"/w/libv.so.1" {
				f.Errorf("candidates %+v", c)
			}
			// One directory that has both is how it is meant.
			f.put("v/libv.so.1", lib("libv.so.1", "plain"))
			f.want(f.ambiguity("p"))
			// And so are a directory for one processor and the same file for others.
			f.put("p", needs("~/v", "libv.so.1"))
			f.want(f.ambiguity("p"))
			f.put("u/glibc-hwcaps/x86-64-v3/libv.so.1", lib("libv.so.1", "plain"))
			f.put("p", needs("~/u:~/w", "libv.so.1"))
			f.want(f.ambiguity("p"))
		}},
		{"a name for the best processor only, and for the second-worst", func(f *folder) {
			f.put("w/libv.so.1", lib("libv.so.1", "plain"))
			for _, level := range []string{"x86-64-v4", "x86-64-v2"} {
				f.put(level+"/glibc-hwcaps/"+level+"/libv.so.1", lib("libv.so.1", level))
				f.put("p", needs("~/"+level+":~/w", "libv.so.1"))
				f.want(f.ambiguity("p"), "error ambiguous-library")
				// As a part of a longer string, it is a guess.
				p := needs("~/" + level + ":~/w")
				p.Data = "x libv.so.1y\x00"
				f.put("p", p)
				f.want(f.ambiguity("p"), "warning ambiguous-library")
				f.Ignore = []string{"libv.so.1"}
				f.want(f.ambiguity("p"))
				f.Ignore = nil
			}
		}},
		{"compat and driver link for one processor are no ambiguity", func(f *folder) {
			f.DriverLink = "~/driver"
			f.Compat = "~/new/compat"
			f.put("new/compat/glibc-hwcaps/x86-64-v2/libcuda.so.1", lib("libcuda.so.1", "v2"))
			f.put("p", needs("~/new/compat:~/driver", "libcuda.so.1"))
			f.want(f.ambiguity("p"))
		}},
		{"hardware directories of stubs and of the working directory are other findings", func(f *folder) {
			f.put("w/libv.so.1", lib("libv.so.1", "plain"))
			f.put("stubs/glibc-hwcaps/x86-64-v3/libv.so.1", lib("libv.so.1", "v3"))
			f.put("stubs/libother.so.1", lib("libother.so.1", ""))
			f.put("p", needs("~/stubs:~/w", "libv.so.1"))
			f.want(f.ambiguity("p"), "error stub-entry")
			f.put("glibc-hwcaps/x86-64-v3/libv.so.1", lib("libv.so.1", "v3"))
			f.put("p", needs(":~/w", "libv.so.1"))
			f.want(f.ambiguity("p"), "error empty-entry")
		}},
		{"the processor decides as the loader does", func(f *folder) {
			if out, err := exec.Command(loader64, "--list-tunables").Output(); err != nil || !bytes.Contains(out, []byte("glibc.cpu")) {
				f.Skip("no ", loader64, " that tells")
			}
			f.put("w/libv.so.1", lib("libv.so.1", "plain"))
			f.put("v/glibc-hwcaps/x86-64-v2/libv.so.1", lib("libv.so.1", "v2"))
			p := needs("~/v:~/w", "libv.so.1")
			p.Interp = loader64
			f.put("p", p)
			found := f.ambiguity("p")
			f.want(found, "error ambiguous-library")
			for i, mask := range []string{"x86-64-v2", "none"} {
				out, _ := exec.Command(loader64, "--glibc-hwcaps-mask", mask, "--list", f.dir+"/p").Output()
				if !bytes.Contains(out, []byte("=> "+found[0].Candidates[i].Path+" (")) {
					f.Errorf("with %s, not %s but %s", mask, found[0].Candidates[i].Path, out)
				}
			}
		}},
		{"a library whose own run path leads elsewhere than to what is loaded", func(f *folder) {
			program := func(runPath string, names ...string) {
				p := needs(runPath, names...)
				p.Interp = loader64
				f.put("p", p)
			}
			user := func(o tinyelf.Object) { f.put("lib/libuser.so.1", o) }
			asks := lib("libuser.so.1", "").Needs("liba.so.1")
			user(asks.With(elf.DT_RUNPATH, "~/b"))
			program("~/a:~/lib", "liba.so.1", "libuser.so.1")
			found := f.ambiguity("p")
			f.want(found, "warning ambiguous-library")
			if c := found[0].Candidates; len(c) != 2 || c[0] != (finding.Candidate{Path: f.dir + "/a/liba.so.1", Position: 0, Wins: true}) || c[1] != (finding.Candidate{Path: f.dir + "/b/liba.so.1", Position: 1, Wins: false}) {
				f.Errorf("candidates %+v", c)
			}
			if out, err := exec.Command(loader64, "--list", f.dir+"/p").Output(); err == nil &&
				(!bytes.Contains(out, []byte(f.dir+"/a/liba.so.1")) || bytes.Contains(out, []byte(f.dir+"/b/liba.so.1"))) {
				f.Errorf("the loader takes another: %s", out)
			}
			f.Ignore = []string{"liba.so.1"}
			f.want(f.ambiguity("p"))
			f.Ignore = nil
			// The first entry that has it counts, not a later one; an empty one is a finding of its own.
			user(asks.With(elf.DT_RUNPATH, "~/none:~/a:~/b"))
			f.want(f.ambiguity("p"))
			user(asks.With(elf.DT_RUNPATH, "~/none:~/b:~/a"))
			f.want(f.ambiguity("p"), "warning ambiguous-library")
			// The same file is no matter, nor one of the same contents, nor a library that asks first.
			user(asks.With(elf.DT_RUNPATH, "~/a"))
			f.want(f.ambiguity("p"))
			f.put("copy/liba.so.1", lib("liba.so.1", "a"))
			user(asks.With(elf.DT_RUNPATH, "~/copy"))
			f.want(f.ambiguity("p"))
			user(asks.With(elf.DT_RUNPATH, "~/b"))
			program("~/lib", "libuser.so.1")
			f.want(f.ambiguity("p"))
			// A hardware directory of one entry is where the loader finds it, both times.
			f.put("a/glibc-hwcaps/x86-64-v2/liba.so.1", lib("liba.so.1", "v2"))
			user(asks.With(elf.DT_RUNPATH, "~/a"))
			program("~/a:~/lib", "liba.so.1", "libuser.so.1")
			f.want(f.ambiguity("p"))
			// A library by itself: what is loaded before it, its program decides.
			user(asks.With(elf.DT_RUNPATH, "~/b"))
			f.put("q", needs("~/w:~/lib:~/b", "libuser.so.1"))
			f.want(f.ambiguity("q"))
		}},
		{"a driver library that is loaded already is the driver's business", func(f *folder) {
			f.DriverLink = "~/driver"
			f.put("lib/libuser.so.1", lib("libuser.so.1", "").Needs("libcuda.so.1").With(elf.DT_RUNPATH, "~/compat"))
			p := needs("~/driver:~/lib", "libcuda.so.1", "libuser.so.1")
			p.Interp = loader64
			f.put("p", p)
			f.want(f.ambiguity("p"))
		}},
		{"gcc's library that is loaded already is of one ABI", func(f *folder) {
			f.put("a/libgcc_s.so.1", lib("libgcc_s.so.1", "a"))
			f.put("b/libgcc_s.so.1", lib("libgcc_s.so.1", "b"))
			f.put("lib/libuser.so.1", lib("libuser.so.1", "").Needs("libgcc_s.so.1").With(elf.DT_RUNPATH, "~/b"))
			p := needs("~/a:~/lib", "libgcc_s.so.1", "libuser.so.1")
			p.Interp = loader64
			f.put("p", p)
			f.want(f.ambiguity("p"))
		}},
		{"an own libc, libm or libstdc++ beside the loader's", func(f *folder) {
			b, err := os.ReadFile(loader64)
			if err != nil {
				f.Skip("no ", loader64)
			}
			root := f.dir + "/root"
			raw := func(name string, b []byte) {
				os.MkdirAll(filepath.Dir(root+name), 0o755)
				if err := os.WriteFile(root+name, b, 0o755); err != nil {
					f.Fatal(err)
				}
			}
			place := func(name, variant string) { f.put("root"+name, lib(filepath.Base(name), variant)) }
			check := func(interp, runPath, name string, want ...string) {
				f.Helper()
				p := needs(runPath, name)
				p.Interp = interp
				f.put("root/p", p)
				f.want(f.auditor(loader.Options{Root: root}).Ambiguity("/p").Findings, want...)
			}
			raw(loader64, b)
			const sys = "/usr/lib/"
			place(sys+"libm.so.6", "system's")
			place(sys+"libstdc++.so.6", "system's")
			place("/own/libm.so.6", "own")
			place("/own/libstdc++.so.6", "own")
			check(loader64, "/own", "libm.so.6", "error libc-mismatch")
			check(loader64, "/own", "libstdc++.so.6", "warning ambiguous-library")
			f.Ignore = []string{"libm*", "libstdc*"}
			check(loader64, "/own", "libm.so.6")
			check(loader64, "/own", "libstdc++.so.6")
			f.Ignore = nil
			// The system's own, also where a run path leads to them, and copies of them.
			check(loader64, "/none", "libm.so.6")
			check(loader64, "/none", "libstdc++.so.6")
			check(loader64, "/usr/lib", "libm.so.6")
			check(loader64, "/usr/lib", "libstdc++.so.6")
			place("/copy/libm.so.6", "system's")
			place("/copy/libstdc++.so.6", "system's")
			check(loader64, "/copy", "libm.so.6")
			check(loader64, "/copy", "libstdc++.so.6")
			// A whole C library in a place of its own.
			raw("/opt/glibc/ld-linux-x86-64.so.2", b)
			place("/opt/glibc/libm.so.6", "its own")
			check("/opt/glibc/ld-linux-x86-64.so.2", "/opt/glibc", "libm.so.6")
			// One that the system does not have.
			place("/own/libanl.so.1", "own")
			check(loader64, "/own", "libanl.so.1")
			// A library names no loader: its program's decides.
			f.put("root/q", needs("/own", "libm.so.6"))
			f.want(f.auditor(loader.Options{Root: root}).Ambiguity("/q").Findings)
			// In a Nix store, the loader's package is the one; it may have more than one directory.
			const glibc, other = "/nix/store/0123456789abcdfghijklmnpqrsvwxyz-glibc-2.40", "/nix/store/1123456789abcdfghijklmnpqrsvwxyz-glibc-2.39"
			raw(glibc+"/lib/ld-linux-x86-64.so.2", b)
			place(glibc+"/lib64/libm.so.6", "its own")
			place(glibc+"/lib/libm.so.6", "its own")
			place(other+"/lib/libm.so.6", "another's")
			check(glibc+"/lib/ld-linux-x86-64.so.2", glibc+"/lib", "libm.so.6")
			check(glibc+"/lib/ld-linux-x86-64.so.2", glibc+"/lib64", "libm.so.6")
			check(glibc+"/lib/ld-linux-x86-64.so.2", other+"/lib", "libm.so.6", "error libc-mismatch")
		}},
		{"many names that nobody asks for are one warning", func(f *folder) {
			for _, n := range []string{"libx.so.1", "liby.so.1", "libz9.so.1"} {
				f.put("a/"+n, lib(n, "a"))
				f.put("b/"+n, lib(n, "b"))
			}
			f.put("p", needs("~/a:~/b", "liba.so.1"))
			found := f.ambiguity("p")
			f.want(found, "error ambiguous-library", "warning ambiguous-library")
			if !slices.Equal(found[1].Libraries, []string{"libx.so.1", "liby.so.1", "libz9.so.1"}) {
				f.Errorf("libraries: %q", found[1].Libraries)
			}
		}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			f := newFolder(t)
			f.put("a/liba.so.1", lib("liba.so.1", "a"))
			f.put("b/liba.so.1", lib("liba.so.1", "b"))
			f.put("driver/libcuda.so.1", lib("libcuda.so.1", "driver"))
			f.put("compat/libcuda.so.1", lib("libcuda.so.1", "compat"))
			c.test(f)
		})
	}
}

// outcome is what an audit of the folder says.
type outcome struct {
	Reports []*explain.Report
	Summary explain.Summary
}

// audit examines all regular files that the paths name or that are below them.
func (f *folder) audit(lo loader.Options, paths ...string) *outcome {
	f.Helper()
	u := f.auditor(lo)
	var pending []*Pending
	for _, p := range paths {
		filepath.WalkDir(p, func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				pending = append(pending, u.Take(p, -1))
				u.Examine(pending[len(pending)-1])
			}
			return err
		})
	}
	o := &outcome{}
	for _, p := range pending {
		r := u.Finish(p)
		o.Reports = append(o.Reports, r)
		o.Summary.Count(r)
	}
	return o
}

func (o *outcome) of(path string) []finding.Finding {
	for _, r := range o.Reports {
		if r.Path == path {
			return r.Findings
		}
	}
	return nil
}

const loader64 = "/lib64/ld-linux-x86-64.so.2"

func TestAudit(t *testing.T) {
	for _, c := range []struct {
		rule string
		test func(*folder)
	}{
		{"a sound package has no findings", func(f *folder) {
			f.put("lib/liba.so.1", lib("liba.so.1", ""))
			f.audited("lib/p", needs("$ORIGIN", "liba.so.1"))
		}},
		{"relative entry", func(f *folder) { f.audited("p", needs("lib"), "error relative-entry") }},
		{"a token that the loader does not know", func(f *folder) {
			f.audited("p", needs("$FOO/lib"), "error unknown-token")
			f.audited("p", needs("/none/${BAR}/lib"), "error unknown-token")
			f.audited("p", needs("$LIB/x"), "error relative-entry")
		}},
		{"an entry that is a file", func(f *folder) {
			f.put("lib/liba.so.1", lib("liba.so.1", ""))
			p := f.put("p", needs("$ORIGIN/lib/liba.so.1"))
			doc := f.audit(loader.Options{}, p)
			f.want(doc.of(p), "note missing-directory")
			if m := doc.of(p)[0].Message; !strings.HasSuffix(m, "is a file, not a directory") {
				f.Error(m)
			}
		}},
		{"an executable stack", func(f *folder) {
			o := lib("libx.so.1", "")
			o.Stack = elf.PF_R | elf.PF_W | elf.PF_X
			f.audited("libx.so.1", o, "warning executable-stack")
			o.Stack = 0 // on x86-64 that asks for one too
			f.audited("libx.so.1", o, "warning executable-stack")
			o.Machine = elf.EM_AARCH64
			f.audited("libx.so.1", o)
		}},
		{"duplicate entry", func(f *folder) {
			f.put("lib/liba.so.1", lib("liba.so.1", ""))
			f.audited("p", needs("$ORIGIN/lib:${ORIGIN}/lib/", "liba.so.1"), "note duplicate-entry")
			// One finding for a directory, however often it is there, and none for what is not looked at.
			f.audited("often", needs("$ORIGIN/lib"+strings.Repeat(":$ORIGIN/lib", 3), "liba.so.1"), "note duplicate-entry")
			many := needs("$ORIGIN/lib"+strings.Repeat(":$ORIGIN/lib", explain.MaxEntries)+":/z:/z", "liba.so.1")
			f.audited("many", many, "note duplicate-entry")
		}},
		{"missing directory", func(f *folder) { f.audited("p", needs("$ORIGIN/none"), "note missing-directory") }},
		{"nothing needed in it", func(f *folder) {
			f.put("lib/libx.so.1", lib("libx.so.1", ""))
			f.audited("p", needs("$ORIGIN/lib"), "note unused-entry")
		}},
		{"left over from the build", func(f *folder) {
			f.audited("p", needs("/build/source/lib"), "error build-directory-entry")
			f.audited("p", needs("/homeless-shelter/lib"), "error build-directory-entry")
			f.audited("p", needs("/home/somebody/lib"), "error build-directory-entry")
		}},
		{"anyone can write", func(f *folder) {
			f.put("lib/liba.so.1", lib("liba.so.1", ""))
			os.Chmod(f.dir+"/lib", 0o777)
			f.audited("p", needs("$ORIGIN/lib", "liba.so.1"), "error world-writable-entry")
			f.audited("p", needs("$ORIGIN/lib/none"), "error world-writable-entry", "note missing-directory")
		}},
		{"DT_RPATH beside DT_RUNPATH", func(f *folder) {
			f.put("lib/liba.so.1", lib("liba.so.1", ""))
			f.audited("p", needs("$ORIGIN/lib", "liba.so.1").With(elf.DT_RPATH, "/x"), "note rpath-beside-runpath")
		}},
		{"needed library not found", func(f *folder) {
			f.audited("p", needs("$ORIGIN", "libnone.so.1"), "error unresolved-library")
		}},
		{"a library that its program completes is sound", func(f *folder) {
			f.put("lib/libplugin.so", lib("libplugin.so", "").Needs("libcore.so"))
			f.put("lib/libcore.so", lib("libcore.so", ""))
			doc := f.audit(loader.Options{}, f.dir)
			f.want(doc.of(f.dir+"/lib/libplugin.so"), "error unresolved-library")
			f.put("p", needs("$ORIGIN/lib", "libcore.so", "libplugin.so"))
			doc = f.audit(loader.Options{}, f.dir)
			f.want(doc.of(f.dir + "/lib/libplugin.so"))
			f.want(doc.of(f.dir + "/p"))
		}},
		{"a program's library lacks a library", func(f *folder) {
			f.put("lib/liba.so.1", lib("liba.so.1", "").Needs("libnone.so.1"))
			p := needs("$ORIGIN/lib", "liba.so.1")
			p.Interp = loader64
			f.audited("p", p, "error unresolved-dependency")
		}},
		{"a library that is found is too old", func(f *folder) {
			old, newer := lib("libv.so.1", "old"), lib("libv.so.1", "new")
			old.Defines, newer.Defines = []string{"V_1"}, []string{"V_1", "V_2"}
			f.put("old/libv.so.1", old)
			f.put("new/libv.so.1", newer)
			a := lib("liba.so.1", "").Needs("libv.so.1").With(elf.DT_RUNPATH, "~/old")
			a.Requires = []tinyelf.Requirement{{Library: "libv.so.1", Version: "V_1"}, {Library: "libv.so.1", Version: "V_2"}}
			f.put("lib/liba.so.1", a)
			doc := f.audit(loader.Options{}, f.dir+"/lib")
			found := doc.of(f.dir + "/lib/liba.so.1")
			f.want(found, "warning missing-version")
			if len(found) != 1 || !strings.Contains(found[0].Message, "/old/libv.so.1") || !strings.HasSuffix(found[0].Message, " does not define V_2, which the file needs") {
				f.Errorf("finding %+v", found)
			}
			p := needs("~/lib", "liba.so.1")
			p.Interp = loader64
			f.put("p", p)
			doc = f.audit(loader.Options{}, f.dir)
			f.want(doc.of(f.dir+"/p"), "error missing-version")
			f.want(doc.of(f.dir+"/lib/liba.so.1"), "warning missing-version")
			// A program that loads the newer one first makes the library sound.
			f.put("p", needs("~/new:~/lib", "libv.so.1", "liba.so.1"))
			doc = f.audit(loader.Options{}, f.dir)
			f.want(doc.of(f.dir + "/p"))
			f.want(doc.of(f.dir + "/lib/liba.so.1"))
		}},
		{"the loader refuses the file itself", func(f *folder) {
			p := needs("$ORIGIN", "libc.so.6")
			p.RelR, p.Interp = true, loader64
			p.Requires = []tinyelf.Requirement{{Library: "libother.so.1", Version: "V_1"}}
			f.audited("p", p, "error load-error")
		}},
		{"driver needed, no driver link", func(f *folder) {
			f.Nix = true
			f.audited("p", needs("$ORIGIN", "libcuda.so.1"), "error no-driver-link")
			f.audited("p", needs("/run/opengl-driver/lib", "libcuda.so.1"), "note driver-absent")
			p := needs("$ORIGIN")
			p.Data = "\x00libcuda.so.1\x00"
			f.audited("p", p, "warning no-driver-link")
			f.Nix = false
			f.audited("p", p, "note no-driver-link")
		}},
		{"the host's directories in a Nix package", func(f *folder) {
			f.Nix = true
			f.audited("p", needs("/usr/local/cuda-none/lib"), "note missing-directory", "warning fhs-entry")
		}},
		{"a stub is loaded", func(f *folder) {
			f.put("stubs/libcuda.so.1", lib("libcuda.so.1", ""))
			f.audited("p", needs("$ORIGIN/stubs", "libcuda.so.1"), "error stub-entry", "error stub-loaded")
		}},
		{"a damaged library stops the load", func(f *folder) {
			os.Mkdir(f.dir+"/lib", 0o755)
			os.WriteFile(f.dir+"/lib/liba.so.1", []byte(strings.Repeat("no ELF file ", 9)), 0o644)
			f.audited("p", needs("$ORIGIN/lib", "liba.so.1"), "error load-error")
		}},
		{"a library for another machine comes first", func(f *folder) {
			other := lib("liba.so.1", "")
			other.Machine = elf.EM_AARCH64
			f.put("arm/liba.so.1", other)
			f.put("lib/liba.so.1", lib("liba.so.1", ""))
			f.audited("p", needs("$ORIGIN/arm:$ORIGIN/lib", "liba.so.1"), "note wrong-machine")
		}},
		{"the program's loader does not exist", func(f *folder) {
			f.audited("p", tinyelf.Object{Stack: elf.PF_R | elf.PF_W, Interp: "/none/ld-linux-x86-64.so.2"}, "error missing-interpreter")
		}},
		{"another system's program without its loader", func(f *folder) {
			f.audited("p", tinyelf.Object{Stack: elf.PF_R | elf.PF_W, OSABI: elf.ELFOSABI_FREEBSD, Interp: "/libexec/none/ld-elf.so.1"}, "note missing-interpreter")
		}},
		{"no loader is here: what is missing is said; of another system's files as a note", func(f *folder) {
			file := tinyelf.Object{Stack: elf.PF_R | elf.PF_W}.Needs("libgone.so.1")
			for name, c := range map[string]struct {
				o       tinyelf.Object
				machine elf.Machine
				interp  string
				want    []string
			}{
				"own.so":  {file.Needs("libc.so.6"), elf.EM_X86_64, "", []string{"error unresolved-library"}},
				"own":     {file.Needs("libc.so.6"), elf.EM_X86_64, "/lib64/ld-linux-x86-64.so.2", []string{"error missing-interpreter", "error unresolved-library"}},
				"musl.so": {file.Needs("libc.musl-x86_64.so.1"), elf.EM_X86_64, "", []string{"note unresolved-library"}},
				"musl":    {file.Needs("libc.so"), elf.EM_X86_64, "/lib/ld-musl-x86_64.so.1", []string{"error missing-interpreter", "note unresolved-library"}},
				"mips":    {file.Needs("libc.so.6"), elf.EM_MIPS, "/lib/ld.so.1", []string{"note missing-interpreter", "note unresolved-library"}},
			} {
				c.o.Machine, c.o.Interp = c.machine, c.interp
				if c.machine == elf.EM_X86_64 && runtime.GOARCH != "amd64" {
					continue
				}
				p := f.put("root/"+name, c.o)
				u := f.auditor(loader.Options{Root: f.dir + "/root"})
				e := u.Take("/"+name, -1)
				u.Examine(e)
				if f.want(u.Finish(e).Findings, c.want...); f.Failed() {
					f.Fatal(p)
				}
			}
		}},
		{"a store's program without its loader: the C library beside it is no second finding", func(f *folder) {
			f.audited("p", tinyelf.Object{Stack: elf.PF_R | elf.PF_W, Interp: "/nix/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-glibc-2.40/lib/ld-linux-x86-64.so.2"}.
				Needs("libc.so.6", "libm.so.6"), "error missing-interpreter")
		}},
		{"a file that cannot be read: nothing is known of it", func(f *folder) {
			u := f.auditor(loader.Options{})
			p := u.Take(f.dir+"/gone", -1)
			u.Examine(p)
			f.want(u.Finish(p).Findings, "error unreadable-file")
		}},
		{"a file that contradicts itself", func(f *folder) {
			p := f.put("p", needs("$ORIGIN"))
			b, _ := os.ReadFile(p)
			os.WriteFile(p, b[:100], 0o755)
			doc := f.audit(loader.Options{}, p)
			f.want(doc.of(p), "error malformed-file")
			if doc.Summary.Failed != 1 || !doc.Summary.Bad() {
				f.Errorf("summary %+v", doc.Summary)
			}
		}},
		{"store paths: compilers, FHS loaders, another libc", func(f *folder) {
			const hash = "/nix/store/0123456789abcdfghijklmnpqrsvwxyz-"
			f.Options.Nix = true
			root := loader.Options{Root: f.dir}
			f.put(hash[1:]+"glibc-2.40/lib/libc.so.6", lib("libc.so.6", "2.40"))
			f.put(hash[1:]+"glibc-2.39/lib/libc.so.6", lib("libc.so.6", "2.39"))
			ld := lib("ld-linux-x86-64.so.2", "\x00"+hash+"glibc-2.40/lib/\x00release version 2.40\x00")
			f.put(hash[1:]+"glibc-2.40/lib/ld-linux-x86-64.so.2", ld)
			f.put(hash[1:]+"gcc-13.3.0/lib/x", lib("x", ""))
			a := f.auditor(root)
			look := func(name string, o tinyelf.Object) []finding.Finding {
				f.put(hash[1:]+name, o)
				l, err := loader.New(root)
				if err != nil {
					f.Fatal(err)
				}
				a.Loader = l
				return a.System.Examine("/"+hash[1:]+name, process.Start{}, func(s *explain.Case, r *explain.Report) { r.Findings = s.Settled() }).Findings
			}
			f.want(look("p-1/bin/p", tinyelf.Object{Stack: elf.PF_R | elf.PF_W, Interp: hash + "glibc-2.40/lib/ld-linux-x86-64.so.2"}.Needs("libc.so.6").With(elf.DT_RUNPATH, hash+"glibc-2.40/lib")))
			f.want(look("p-2/bin/p", tinyelf.Object{Stack: elf.PF_R | elf.PF_W, Interp: hash + "glibc-2.40/lib/ld-linux-x86-64.so.2"}.Needs("libc.so.6").With(elf.DT_RUNPATH, hash+"glibc-2.39/lib")), "error libc-mismatch")
			f.want(look("gcc-9.1/lib/l.so", needs(hash+"gcc-9.1/lib"))) // its own package stays anyway
			f.want(look("p-3/lib/l.so", needs(hash+"gcc-13.3.0/lib")), "note unused-entry", "warning kept-reference")
			f.want(look("p-4/bin/p", tinyelf.Object{Stack: elf.PF_R | elf.PF_W, Interp: loader64}), "warning fhs-interpreter")
		}},
	} {
		t.Run(c.rule, func(t *testing.T) { c.test(newFolder(t)) })
	}
}

// audited puts a file and checks what an audit of it alone says.
func (f *folder) audited(name string, o tinyelf.Object, want ...string) {
	f.Helper()
	if o.Interp == loader64 {
		if _, err := os.Stat(loader64); err != nil {
			f.Skip("no ", loader64)
		}
	}
	p := f.put(name, o)
	doc := f.audit(loader.Options{}, p)
	f.want(doc.of(p), want...)
}

func TestBaselineAcceptsWhatIsThere(t *testing.T) {
	f := newFolder(t)
	p := f.put("p", needs("$ORIGIN:", "libnone.so.1"))
	update, baseline := &Baseline{Dir: f.dir, Update: true}, &Baseline{Dir: f.dir}
	for _, r := range f.audit(loader.Options{}, f.dir).Reports {
		update.Accept(r)
	}
	var b bytes.Buffer
	if err := update.Write(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "\nempty-entry\tp\n") {
		t.Errorf("the baseline holds no relative names: %s", b.String())
	}
	if err := baseline.Read(&b); err != nil {
		t.Fatal(err)
	}
	accepted := func() (s explain.Summary) {
		for _, r := range f.audit(loader.Options{}, f.dir).Reports {
			baseline.Accept(r)
			s.Count(r)
		}
		return s
	}
	if s := accepted(); s.Accepted != 2 || s.Errors != 0 || s.Bad() {
		t.Errorf("summary %+v", s)
	}
	f.put("p", needs("$ORIGIN:", "libnone.so.1", "libnew.so.1"))
	if s := accepted(); s.Errors != 1 || !s.Bad() {
		t.Errorf("a new finding of %s was accepted: %+v", p, s)
	}
	if err := new(Baseline).Read(strings.NewReader("# x\n\nnonsense\n")); err == nil || !strings.HasPrefix(err.Error(), "3: ") {
		t.Errorf("nonsense was accepted: %v", err)
	}
}

// A file has one name in a baseline, however it is named when it is examined: below the baseline's directory, a store of a
// workspace's own too, the name from there; in a store elsewhere, the whole name.
func TestNamesInABaseline(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	const inside = "nix/store/0123456789abcdfghijklmnpqrsvwxyz-app/bin/p"
	b, outside := &Baseline{Dir: dir}, "/"+inside
	up, err := filepath.Rel(dir, outside)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a/p": "a/p", dir + "/a/p": "a/p", inside: inside, "./" + inside: inside, dir + "/" + inside: inside,
		outside: outside, up: outside, "../p": "../p"} {
		if got := b.name(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestFingerprintsOutliveARebuild(t *testing.T) {
	finding := func(hash string) string {
		entry := "/nix/store/" + hash + "-gcc-13.3.0/lib"
		return fingerprint("/nix/store/"+hash+"-p-1/bin/p", &finding.Finding{ID: finding.KeptReference, Entry: &entry})
	}
	if a, b := finding("0123456789abcdfghijklmnpqrsvwxyz"), finding("zyxwvsrqpnmlkjihgfdcba9876543210"); a != b {
		t.Errorf("%q and %q", a, b)
	}
}

func TestClosureNeedsAStorePath(t *testing.T) {
	if _, _, err := Closure([]string{t.TempDir()}); err == nil {
		t.Error("a folder outside any store was accepted")
	}
}

// Who needs a library that it does not find works where that was loaded before: by a program, or by luck.
func TestWhoLoadsALibraryBefore(t *testing.T) {
	f := newFolder(t)
	f.put("lib/libcore.so", lib("libcore.so", ""))
	f.put("plugin.so", lib("plugin.so", "").Needs("libcore.so"))
	f.put("other.so", lib("other.so", "").Needs("libcore.so").With(elf.DT_RUNPATH, "$ORIGIN/lib"))
	doc := f.audit(loader.Options{}, f.dir)
	f.want(doc.of(f.dir+"/plugin.so"), "warning unresolved-library")
	p := needs("$ORIGIN/lib", "libcore.so")
	p.Interp = loader64
	f.put("p", p)
	doc = f.audit(loader.Options{}, f.dir)
	f.want(doc.of(f.dir+"/plugin.so"), "note unresolved-library")
}

// Which of several files is said to load a library before depends on their names, not on which is examined first.
func TestWhoLoadsALibraryBeforeIsOneOfMany(t *testing.T) {
	f := newFolder(t)
	f.put("lib/libcore.so", lib("libcore.so", ""))
	f.put("lib/libnamed.so", lib("libnamed.so", ""))
	f.put("lib/libstarted.so", lib("libstarted.so", ""))
	plugin := f.put("plugin.so", lib("plugin.so", "").Needs("libcore.so", "libnamed.so", "libstarted.so"))
	files := []string{plugin}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		files = append(files, f.put(name+".so", lib(name+".so", "").Needs("libcore.so").With(elf.DT_RUNPATH, "$ORIGIN/lib")))
		opens := lib("n"+name+".so", "\x00libnamed.so\x00")
		files = append(files, f.put("n"+name+".so", opens))
		p := needs("$ORIGIN/lib", "libstarted.so")
		p.Interp = loader64
		files = append(files, f.put(name, p))
	}
	for run := range 50 {
		rand.New(rand.NewPCG(uint64(run), 1)).Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
		u := f.auditor(loader.Options{Opened: true})
		var of *Pending
		var all sync.WaitGroup
		for _, file := range files {
			p := u.Take(file, -1)
			if file == plugin {
				of = p
			}
			all.Go(func() { u.Examine(p) })
		}
		all.Wait()
		var said []string
		for _, x := range u.Finish(of).Findings {
			said = append(said, x.Message)
		}
		for i, want := range []string{"by " + f.dir + "/a.so", "as " + f.dir + "/na.so may do", "as " + f.dir + "/a does"} {
			if len(said) != 3 || !strings.Contains(strings.Join(said, "\n"), want) {
				t.Fatalf("run %d: %d, %q is not in %q", run, i, want, said)
			}
		}
	}
}

// A name that the file needs is no guess because it is in a longer string too.
func TestNeededNameInALongerString(t *testing.T) {
	f := newFolder(t)
	f.put("a/liba.so.1", lib("liba.so.1", "a"))
	f.put("b/liba.so.1", lib("liba.so.1", "b"))
	p := needs("~/a:~/b", "liba.so.1")
	p.Data = "\x00cannot open liba.so.1 here\x00"
	f.put("p", p)
	f.want(f.ambiguity("p"), "error ambiguous-library")
}

func TestWhatAClosureWouldLose(t *testing.T) {
	dir := t.TempDir()
	const answers = `#!/bin/sh
case "$*" in
"-q --references /s/p") echo /s/p /s/a /s/b ;;
"-qR /s/b") echo /s/b /s/c ;;
"-qR /s/a") echo /s/a /s/c /s/d ;;
"-q --size /s/a /s/d") echo 30; echo 12 ;;
*) exit 1 ;;
esac
`
	if err := os.WriteFile(dir+"/nix-store", []byte(answers), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("NIX_REMOTE", "local")
	saved := Saved()
	for range 2 {
		if n, ok := saved("/s/p", "/s/a"); n != 42 || !ok {
			t.Errorf("%d, %v", n, ok)
		}
		if n, ok := saved("/s/none", "/s/a"); n != 0 || ok {
			t.Errorf("a path that the store does not have: %d, %v", n, ok)
		}
	}
}

// What is said of an entry names it and its place.
func TestEntriesInWords(t *testing.T) {
	f := newFolder(t)
	o := needs("~/gone:lib:$FOO/x:~/gone:~/p:~/stubs:~/other", "liba.so.1")
	o.Stack |= elf.PF_X // a warning
	p := f.put("p", o)
	f.put("stubs/liba.so.1", lib("liba.so.1", "stub"))
	f.put("other/libb.so.1", lib("libb.so.1", ""))
	var got []string
	var order []finding.Severity
	for _, x := range f.audit(loader.Options{}, p).of(p) {
		if x.Position > 0 {
			got = append(got, x.Message)
		}
		order = append(order, x.Severity)
	}
	if order = slices.Compact(order); !slices.Equal(order, []finding.Severity{finding.Error, finding.Warning, finding.Note}) {
		t.Errorf("the worst come first: %v", order)
	}
	slices.Sort(got)
	want := []string{
		f.path("entry 1, ~/gone, does not exist"), "entry 2, lib, is relative: it is searched below the working directory",
		"entry 3, $FOO/x, has $FOO, which the loader does not know and takes as part of a file name",
		f.path("entry 4, ~/gone, does not exist"), f.path("entry 4, ~/gone, names a directory that an earlier entry names"),
		f.path("entry 5, ~/p, is a file, not a directory"), f.path("entry 6, ~/stubs, is a stub directory, where the loader looks for liba.so.1"),
		f.path("entry 7, ~/other, holds nothing that the file asks for"),
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant %s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// An entry that holds nothing that is needed keeps its store path alive.
func TestUnusedStorePathInWords(t *testing.T) {
	f := newFolder(t)
	const own, other = "nix/store/00000000000000000000000000000000-own", "nix/store/11111111111111111111111111111111-other"
	f.put(own+"/p", needs("/"+other+"/lib"))
	f.put(other+"/lib/libb.so.1", lib("libb.so.1", ""))
	u := f.auditor(loader.Options{Root: f.dir})
	p := u.Take("/"+own+"/p", -1)
	u.Examine(p)
	want := "entry 1, /" + other + "/lib, holds nothing that the file asks for, and keeps /" + other + " alive"
	if found := u.Finish(p).Findings; len(found) != 1 || found[0].Message != want {
		t.Errorf("%+v, want %s", found, want)
	}
}

// An excuse for what a library lacks is a start that exists; a program's own errors have none.
func TestExcusesAreStarts(t *testing.T) {
	const musl = "ld-musl-x86_64.so.1"
	started := func(runPath string, names ...string) tinyelf.Object {
		o := needs(runPath, names...)
		o.Interp = loader64
		return o
	}
	for what, c := range map[string]struct {
		files map[string]any // a text is a script; "link:" and a name make another name of a file
		want  string         // findings by their files
	}{
		"a library that nobody loads brings its DT_RPATH to no other process": {map[string]any{
			"p": started("~/c", "lib2.so.1"), "c/lib2.so.1": lib("lib2.so.1", "").Needs("lib3.so.1"), "x/lib3.so.1": lib("lib3.so.1", ""),
			"c/lib0.so.1": lib("lib0.so.1", "").Needs("lib2.so.1").With(elf.DT_RPATH, "~/c:~/x"),
		}, "c/lib2.so.1: warning unresolved-library, p: error unresolved-dependency"},
		"a library that only others load, which somebody may open, is theirs": {map[string]any{
			"c/lib2.so.1": lib("lib2.so.1", "").Needs("lib3.so.1"), "x/lib3.so.1": lib("lib3.so.1", ""),
			"c/lib0.so.1": lib("lib0.so.1", "").Needs("lib2.so.1").With(elf.DT_RPATH, "~/c:~/x"),
		}, ""},
		"what a program has loaded before is there for what it can open": {map[string]any{
			"p": started("~/c", "libdep.so.1"), "c/libdep.so.1": lib("libdep.so.1", ""), "plugins/q.so": lib("", "").Needs("libdep.so.1"),
		}, "plugins/q.so: note unresolved-library"},
		"not for a library that it cannot have": {map[string]any{
			"p": started("~/c", "libdep.so.1"), "c/libdep.so.1": lib("libdep.so.1", ""),
			"plugins/q.so": tinyelf.Object{Stack: elf.PF_R | elf.PF_W, Class: elf.ELFCLASS32, Machine: elf.EM_386}.Needs("libdep.so.1"),
		}, "plugins/q.so: error unresolved-library"},
		"another name of a file is another start": {map[string]any{
			"v1/p": started("$ORIGIN/lib", "libk.so.1"), "v1/lib/libk.so.1": lib("libk.so.1", ""), "v2/p": "link:v1/p", "v3/libk.so.1": "link:v1/lib/libk.so.1",
		}, "v2/p: error unresolved-library, v2/p: note missing-directory"},
		"what a wrapper sets is a part of the start": {map[string]any{
			"bin/.p-wrapped": started("", "libk.so.1"), "lib/libk.so.1": lib("libk.so.1", ""),
			"bin/p": "#!/bin/sh\nexport LD_LIBRARY_PATH=~/lib\nexec ~/bin/.p-wrapped \"$@\"\n",
		}, ""},
		"of two wrappers each has to": {map[string]any{
			"bin/.p-wrapped": started("", "libk.so.1"), "lib/libk.so.1": lib("libk.so.1", ""),
			"bin/p": "#!/bin/sh\nexport LD_LIBRARY_PATH=~/lib\nexec ~/bin/.p-wrapped \"$@\"\n", "bin/q": "#!/bin/sh\nexec ~/bin/.p-wrapped \"$@\"\n",
		}, "bin/.p-wrapped: error unresolved-library"},
		"the libraries of a program of musl are musl's": {map[string]any{
			"lib/" + musl: tinyelf.Object{Stack: elf.PF_R | elf.PF_W, Data: "musl libc\x00"}.With(elf.DT_SONAME, musl),
			"p":           tinyelf.Object{Stack: elf.PF_R | elf.PF_W, Interp: "~/lib/" + musl}.Needs("liba.so").With(elf.DT_RUNPATH, "~/c"),
			"c/liba.so":   lib("liba.so", "").Needs("libc.so"),
		}, ""},
	} {
		t.Run(what, func(t *testing.T) {
			f := newFolder(t)
			os.RemoveAll(f.dir + "/a")
			os.RemoveAll(f.dir + "/b")
			var links []string
			for name, content := range c.files {
				switch content := content.(type) {
				case tinyelf.Object:
					content.Interp = f.path(content.Interp)
					f.put(name, content)
				case string:
					os.MkdirAll(filepath.Dir(f.dir+"/"+name), 0o755)
					if !strings.HasPrefix(content, "link:") {
						os.WriteFile(f.dir+"/"+name, []byte(f.path(content)), 0o755)
					} else {
						links = append(links, name)
					}
				}
			}
			for _, name := range links {
				first := f.dir + "/" + strings.TrimPrefix(c.files[name].(string), "link:")
				if err := os.Link(first, f.dir+"/"+name); err != nil {
					t.Fatal(err)
				}
			}
			u := f.auditor(loader.Options{Opened: true})
			var all []*Pending
			for _, name := range slices.Sorted(maps.Keys(c.files)) {
				at := f.dir + "/" + name
				switch text, _ := c.files[name].(string); {
				case strings.HasPrefix(text, "link:"):
					all = append(all, u.TakeLink(at, text))
				case text != "":
					u.Wrapper(at)
				default:
					all = append(all, u.Take(at, -1))
				}
			}
			for _, p := range all {
				u.Examine(p)
			}
			var got []string
			for _, p := range all {
				for _, x := range u.Finish(p).Findings {
					got = append(got, fmt.Sprintf("%s: %s %s", strings.TrimPrefix(p.report.Path, f.dir+"/"), x.Severity, x.ID))
				}
			}
			if said := strings.Join(got, ", "); said != c.want {
				t.Errorf("%s", said)
			}
		})
	}
}

// A package may hold a variant for Android, whose C library has musl's name: nothing on a machine with glibc loads it.
func TestAFileForAndroid(t *testing.T) {
	f := newFolder(t)
	o := tinyelf.Object{Stack: elf.PF_R | elf.PF_W}.Needs("libgone.so", "libc.so")
	musl := o
	o.Requires = []tinyelf.Requirement{{Library: "libc.so", Version: "LIBC"}}
	for file, want := range map[string][]string{"android.bare": {"note unresolved-library", "note unresolved-library"},
		"musl.node": {"error unresolved-library", "note libc-mismatch"}} {
		f.put(loader64[1:], lib("ld-linux-x86-64.so.2", "\x00/usr/lib/\x00release version 2.40\x00"))
		f.put(file, map[string]tinyelf.Object{"android.bare": o, "musl.node": musl}[file])
		a := f.auditor(loader.Options{Root: f.dir})
		f.want(a.System.Examine("/"+file, process.Start{}, func(s *explain.Case, r *explain.Report) { r.Findings = s.All() }).Findings, want...)
	}
}
