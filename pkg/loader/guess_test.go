package loader

import (
	"debug/elf"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/files"
	"cuda-runpath/tests/tinyelf"
)

// A library names no loader: which one is asked about it.
func TestLoaderOfALibrary(t *testing.T) {
	const glibc = "nix/store/0123456789abcdfghijklmnpqrsvwxyz-glibc-2.40/lib"
	const usual = "/lib64/ld-linux-x86-64.so.2"
	for name, c := range map[string]struct {
		at    string
		lib   tinyelf.Object
		files []string
		want  string
	}{
		"the usual one":                             {"l.so", lib("l.so"), []string{usual}, usual},
		"one that it needs by name":                 {"l.so", lib("l.so").Needs("ld-linux-other.so.9"), []string{usual}, "/lib64/ld-linux-other.so.9"},
		"the one of the glibc in its run path":      {"l.so", lib("l.so").With(elf.DT_RUNPATH, "/"+glibc), []string{usual, glibc + "/libc.so.6", glibc + "/ld-linux-x86-64.so.2"}, "/" + glibc + "/ld-linux-x86-64.so.2"},
		"a C library in the run path has no loader": {"l.so", lib("l.so").With(elf.DT_RUNPATH, "/"+glibc), []string{usual, glibc + "/libc.so.6"}, usual},
		"musl's by its name":                        {"l.so", lib("l.so").Needs("libc.musl-x86_64.so.1"), []string{usual}, "/lib/ld-musl-x86_64.so.1"},
		"musl's, where nothing else is":             {"l.so", lib("l.so"), []string{"/lib/ld-musl-x86_64.so.1"}, "/lib/ld-musl-x86_64.so.1"},
		"not known, in a store":                     {strings.Replace(glibc, "glibc-2.40", "wheel-1", 1) + "/l.so", lib("l.so"), []string{usual}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.o.Root = s.dir
			for _, f := range c.files {
				s.put(strings.TrimPrefix(f, "/"), lib("x"))
			}
			s.put(c.at, c.lib)
			if got := s.load(c.at).Interp.Path; got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// Glibc's libraries come with a program whose loader is not here. Where the loader is, they are looked for.
func TestLibrariesOfTheProgram(t *testing.T) {
	for _, there := range []bool{false, true} {
		s := newStage(t)
		s.o.Root = s.dir
		s.put("l.so", lib("l.so").Needs("libc.so.6", "liba.so"))
		want := []Rule{ByProcess, NotFound}
		if there {
			s.put("lib64/ld-linux-x86-64.so.2", lib("ld-linux-x86-64.so.2"))
			want[0] = NotFound
		}
		objects := s.load("l.so").Objects
		if got := []Rule{objects[1].Rule, objects[2].Rule}; !slices.Equal(got, want) {
			t.Errorf("%v: %v, want %v", there, got, want)
		}
	}
}

func TestNamesOfSystems(t *testing.T) {
	for _, c := range []struct {
		abi  files.ABI
		want systemNames
	}{
		{files.ABI{Class: elf.ELFCLASS64, Data: elf.ELFDATA2LSB, Machine: elf.EM_X86_64}, systemNames{interpreter: "/lib64/ld-linux-x86-64.so.2", musl: "x86_64", triplet: "x86_64-linux-gnu", vdso: "linux-vdso.so.1"}},
		{files.ABI{Class: elf.ELFCLASS32, Data: elf.ELFDATA2LSB, Machine: elf.EM_X86_64}, systemNames{interpreter: "/libx32/ld-linux-x32.so.2", musl: "x86_64", triplet: "x86_64-linux-gnu", vdso: "linux-vdso.so.1"}},
		{files.ABI{Class: elf.ELFCLASS32, Data: elf.ELFDATA2LSB, Machine: elf.EM_386}, systemNames{interpreter: "/lib/ld-linux.so.2", musl: "i386", triplet: "i386-linux-gnu", vdso: "linux-gate.so.1"}},
		{files.ABI{Class: elf.ELFCLASS32, Data: elf.ELFDATA2LSB, Machine: elf.EM_ARM, Flags: 0x5000200}, systemNames{interpreter: "/lib/ld-linux.so.3", musl: "armhf", triplet: "arm-linux-gnueabihf", vdso: "linux-vdso.so.1"}},
		{files.ABI{Class: elf.ELFCLASS32, Data: elf.ELFDATA2LSB, Machine: elf.EM_ARM, Flags: 0x5000400}, systemNames{interpreter: "/lib/ld-linux-armhf.so.3", musl: "armhf", triplet: "arm-linux-gnueabihf", vdso: "linux-vdso.so.1"}},
		{files.ABI{Class: elf.ELFCLASS64, Data: elf.ELFDATA2MSB, Machine: elf.EM_AARCH64}, systemNames{interpreter: "/lib/ld-linux-aarch64_be.so.1", musl: "aarch64", triplet: "aarch64-linux-gnu", vdso: "linux-vdso.so.1"}},
		{files.ABI{Class: elf.ELFCLASS64, Data: elf.ELFDATA2LSB, Machine: elf.EM_PPC64}, systemNames{interpreter: "/lib64/ld64.so.2", musl: "powerpc64le", triplet: "powerpc64le-linux-gnu", vdso: "linux-vdso64.so.1"}},
		{files.ABI{Class: elf.ELFCLASS64, Data: elf.ELFDATA2MSB, Machine: elf.EM_S390}, systemNames{interpreter: "/lib/ld64.so.1", musl: "s390x", triplet: "s390x-linux-gnu", vdso: "linux-vdso64.so.1"}},
		{files.ABI{Class: elf.ELFCLASS32, Data: elf.ELFDATA2MSB, Machine: elf.EM_68K}, systemNames{interpreter: "/lib/ld.so.1"}},
	} {
		got := systemOf(c.abi)
		if got = (systemNames{interpreter: got.interpreter, musl: got.musl, triplet: got.triplet, vdso: got.vdso}); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.abi, got, c.want)
		}
	}
}

// Where the loader's file is not there to be read.
func TestDefaultDirectories(t *testing.T) {
	for _, c := range []struct {
		machine elf.Machine
		class   elf.Class
		want    string
	}{
		{elf.EM_X86_64, elf.ELFCLASS64, "/lib/x86_64-linux-gnu/ /usr/lib/x86_64-linux-gnu/ /lib/ /usr/lib/ /lib64/ /usr/lib64/"},
		{elf.EM_386, elf.ELFCLASS32, "/lib/i386-linux-gnu/ /usr/lib/i386-linux-gnu/ /lib/ /usr/lib/"},
		{elf.EM_MIPS, elf.ELFCLASS64, "/lib64/ /usr/lib64/"},
		{elf.EM_MIPS, elf.ELFCLASS32, "/lib/ /usr/lib/"},
		{elf.EM_ALPHA, elf.ELFCLASS64, "/lib/ /usr/lib/"},
	} {
		if got := strings.Join(defaultDirs(&Interpreter{}, files.ABI{Class: c.class, Machine: c.machine}), " "); got != c.want {
			t.Errorf("%v %v: %s", c.machine, c.class, got)
		}
	}
}

func TestAssumedDriverStandsForTheLinkThatIsNamed(t *testing.T) {
	s := newStage(t)
	s.put("driver/libcuda.so.1", lib("libcuda.so.1"))
	s.put("p", prog("libcuda.so.1").With(elf.DT_RUNPATH, "/other/link"))
	s.o.AssumeDriver, s.o.DriverLink = s.dir+"/driver", "/other/link"
	if o := s.load("p").Objects[1]; o.Path != "/other/link/libcuda.so.1" {
		t.Errorf("%q", o.Path)
	}
}

func TestLinkThatLeadsNowhereIsSaid(t *testing.T) {
	s := newStage(t)
	s.link("nothing", "a/liba.so.1")
	s.put("p", prog("liba.so.1").With(elf.DT_RUNPATH, "~/a"))
	if at, why := s.load("p").Objects[1].Passed(); at != s.dir+"/a/liba.so.1" || why != "is a symbolic link that leads nowhere" {
		t.Errorf("%q %q", at, why)
	}
	// In a subdirectory of a processor's level, few of which hold anything, it is as if there were none.
	s.o.CPU = "x86-64-v2"
	s.link("nothing", "b/glibc-hwcaps/x86-64-v2/liba.so.1")
	s.put("b/liba.so.1", tinyelf.Object{Machine: elf.EM_ALPHA})
	s.put("p", prog("liba.so.1").With(elf.DT_RUNPATH, "~/b"))
	if at, why := s.load("p").Objects[1].Passed(); at != s.dir+"/b/liba.so.1" {
		t.Errorf("%q %q", at, why)
	}
}

// What is remembered of a loader is that loader's.
func TestProgramsOfTwoLoaders(t *testing.T) {
	st := newStage(t)
	st.put("p", prog("libx.so"))
	st.put("q", tinyelf.Object{Interp: "/lib/ld-musl-x86_64.so.1"}.Needs("libx.so"))
	l, err := New(st.o)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]Kind{"p": GLibc, "q": Musl} {
		if s, err := l.Load(st.dir + "/" + name); err != nil || s.Interp.Kind != want {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}

// Which loader a program can be given whose own is not here: the distribution's, or the one of /bin/sh.
func TestUsualLoader(t *testing.T) {
	const glibc, usual, musl = "/nix/store/0123456789abcdfghijklmnpqrsvwxyz-glibc-2.40/lib/ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1"
	libc := tinyelf.Object{Data: "musl libc (x86_64)\n"}.With(elf.DT_SONAME, "libc.so")
	for name, c := range map[string]struct {
		shell  tinyelf.Object
		want   string
		asks   string
		others map[string]tinyelf.Object
	}{
		"a distribution":                       {tinyelf.Object{Interp: usual}, usual, "/none/ld.so", map[string]tinyelf.Object{usual: lib("ld-linux-x86-64.so.2")}},
		"NixOS":                                {tinyelf.Object{Interp: glibc}, glibc, usual, map[string]tinyelf.Object{glibc: lib("ld-linux-x86-64.so.2")}},
		"a store that was emptied":             {tinyelf.Object{Interp: glibc}, "", usual, nil},
		"another C library":                    {tinyelf.Object{Interp: musl}, "", usual, map[string]tinyelf.Object{musl: libc}},
		"a program of musl, and a shell of it": {tinyelf.Object{Interp: musl}, musl, "/none/ld-musl-x86_64.so.1", map[string]tinyelf.Object{musl: libc}},
		"a program of musl, and none of it":    {tinyelf.Object{Interp: usual}, "", "/none/ld-musl-x86_64.so.1", map[string]tinyelf.Object{usual: lib("ld-linux-x86-64.so.2")}},
		"another machine's shell":              {tinyelf.Object{Machine: elf.EM_AARCH64, Interp: glibc}, "", usual, map[string]tinyelf.Object{glibc: lib("ld-linux-x86-64.so.2")}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.o.Root, s.noReal = s.dir, true
			for at, o := range c.others {
				s.put(strings.TrimPrefix(at, "/"), o)
			}
			s.put("bin/sh", c.shell)
			s.put("p", tinyelf.Object{Interp: c.asks})
			if got := s.load("/p").UsualInterpreter(); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
