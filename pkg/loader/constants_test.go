package loader

import (
	"debug/elf"
	"os"
	"strings"
	"testing"

	"cuda-runpath/pkg/files"
	"cuda-runpath/tests/tinyelf"
)

func TestReleaseVersion(t *testing.T) {
	for text, want := range map[string]Version{
		"ld.so (Debian GLIBC 2.36-9) stable release version 2.36.\nCopyright":                          36,
		"release version of 2.1 \x00 release version 3\x00release version 2.\x00release version 2.345": 345,
		"release version 2.41":                   41,
		"release version 2.99999999999999999999": 0,
		"release version ":                       0,
		"version 2.36":                           0,
		"":                                       0,
	} {
		if v, ok := releaseVersion([]byte(text)); v != want || ok != (want != 0) {
			t.Errorf("%q: %v %v", text, v, ok)
		}
	}
}

// What a loader's version decides, on both sides of each border. Before 2.33 it does not say its version: at most that of the
// libc.so.6 beside it. The real ones: TestGLibc with LOADER in the environment.
func TestVersionOfTheLoader(t *testing.T) {
	const at, silent = "lib64/ld-linux-x86-64.so.2", "GLIBC_PRIVATE\x00"
	said := func(n string) string { return silent + "stable release version 2." + n + ".\n\x00glibc-hwcaps\x00" }
	for name, c := range map[string]struct {
		data    string
		libc    []string // versions that the libc.so.6 beside it defines; nil: there is none
		version Version
		finds   string // below the directory, of all that there is
	}{
		"2.17":            {silent, []string{"GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_PRIVATE"}, 17, "tls/x86_64/"},
		"2.31":            {silent, []string{"GLIBC_2.2.5", "GLIBC_2.30", "GLIBC_2.4", "GLIBC_2.3.4", "GLIBC_PRIVATE"}, 30, "tls/x86_64/x86_64/"},
		"2.31, said":      {silent, []string{"GLIBC_2.30", "GNU C Library (Debian GLIBC 2.31-13) stable release version 2.31"}, 31, "tls/x86_64/x86_64/"},
		"2.32":            {silent, []string{"GLIBC_2.32"}, 32, "tls/x86_64/x86_64/"},
		"no libc.so.6":    {silent, nil, 32, "tls/x86_64/x86_64/"},
		"another's libc":  {silent, []string{"GLIBC_2.36"}, 32, "tls/x86_64/x86_64/"},
		"RHEL 8's 2.28":   {said("28"), []string{"GLIBC_2.28"}, 28, "glibc-hwcaps/x86-64-v2/"},
		"2.33":            {said("33"), nil, 33, "glibc-hwcaps/x86-64-v2/"},
		"2.36":            {said("36"), nil, 36, "glibc-hwcaps/x86-64-v2/"},
		"2.37":            {said("37"), nil, 37, "glibc-hwcaps/x86-64-v2/"},
		"no glibc's":      {"", []string{"GLIBC_2.31"}, Newest, "glibc-hwcaps/x86-64-v2/"},
		"not to be known": {"release version", nil, Newest, "glibc-hwcaps/x86-64-v2/"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.o.Root, s.o.CPU, s.noReal = s.dir, "x86-64-v2", true
			real := lib("ld-linux-x86-64.so.2")
			real.Data = c.data
			if strings.HasPrefix(c.data, silent) {
				real.Defines = []string{"GLIBC_PRIVATE"}
			}
			s.put("usr/lib/x/ld.so", real) // Debian's is a link to where libc.so.6 is
			s.link("../usr/lib/x/ld.so", at)
			if c.libc != nil {
				libc := lib("libc.so.6")
				libc.Defines = c.libc
				s.put("usr/lib/x/libc.so.6", libc)
			}
			dirs := []string{"glibc-hwcaps/x86-64-v2/", "tls/x86_64/x86_64/", "tls/x86_64/", "tls/", "x86_64/x86_64/", "x86_64/", ""}
			for _, dir := range dirs {
				s.put("a/"+dir+"liba.so.1", lib("liba.so.1"))
			}
			s.put("p", tinyelf.Object{Interp: "/" + at}.Needs("liba.so.1").With(elf.DT_RUNPATH, "/a").With(dtAudit, "liba.so.1"))
			l := s.load("p")
			if l.Interp.Version != c.version {
				t.Errorf("%v, want %v", l.Interp.Version, c.version)
			}
			if got := l.Objects[1].Path; got != "/a/"+c.finds+"liba.so.1" {
				t.Errorf("%s, want the one in %s", got, c.finds)
			}
			if got := len(l.Audits); got != 0 != (c.version >= 32) {
				t.Errorf("%d auditing modules", got)
			}
			// Without those, what 2.36 and older ones combine still counts.
			os.RemoveAll(s.dir + "/a/glibc-hwcaps")
			os.RemoveAll(s.dir + "/a/x86_64")
			os.RemoveAll(s.dir + "/a/tls/x86_64")
			want := ""
			if c.version < 37 {
				want = "tls/"
			}
			if got := s.load("p").Objects[1].Path; got != "/a/"+want+"liba.so.1" {
				t.Errorf("%s, want the one in %q", got, want)
			}
		})
	}
}

// "Also try the next entry" where one is a file: glibc 2.39 added ENOTDIR to the errors after which a list goes on, which
// matters for a relative entry alone, as absolute ones are looked at before.
func TestEntryThatIsAFile(t *testing.T) {
	for n, want := range map[string]Rule{"2.38": NotFound, "2.39": ByRunPath} {
		s := newStage(t)
		s.o.Root, s.noReal = s.dir, true
		ld := lib("ld-linux-x86-64.so.2")
		ld.Data = "release version " + n
		s.put("lib64/ld-linux-x86-64.so.2", ld)
		s.raw("file", "")
		s.put("a/liba.so.1", lib("liba.so.1"))
		s.put("p", tinyelf.Object{Interp: "/lib64/ld-linux-x86-64.so.2"}.Needs("liba.so.1").With(elf.DT_RUNPATH, "file:/a"))
		if got := s.load("p").Objects[1].Rule; got != want {
			t.Errorf("glibc %s: %s, want %s", n, got, want)
		}
	}
}

// From 2.41 on glibc makes no stack executable for what is opened; a process that has such a stack opens it. What is there at the start
// gets one.
func TestOpenedForAnExecutableStack(t *testing.T) {
	const refuses = "/a/libx.so: cannot enable executable stack as shared object requires (its PT_GNU_STACK has PF_X)"
	for n, want := range map[string]string{"2.40": "", "2.41": refuses, "2.42": refuses} {
		s := newStage(t)
		s.o.Root, s.noReal = s.dir, true
		plain := func(o tinyelf.Object) tinyelf.Object { o.Stack = elf.PF_R | elf.PF_W; return o }
		ld := plain(lib("ld-linux-x86-64.so.2"))
		ld.Data = "release version " + n
		s.put("lib64/ld-linux-x86-64.so.2", ld)
		x := lib("libx.so")
		x.Stack = elf.PF_R | elf.PF_W | elf.PF_X
		s.put("a/libx.so", x)
		s.put("a/liby.so", plain(lib("liby.so").Needs("libx.so")))
		at := tinyelf.Object{Interp: "/lib64/ld-linux-x86-64.so.2"}.With(elf.DT_RUNPATH, "/a")
		s.put("p", plain(at))
		s.put("q", plain(at.Needs("libx.so")))
		if l := s.load("q"); l.Stops() != "" || l.Open("liby.so", l.Main, DlopenAsked, "").Why != "" {
			t.Errorf("glibc %s, at the start: %q, %+v", n, l.Stops(), l.Failed)
		}
		l := s.load("p")
		if got := l.Open("libx.so", l.Main, DlopenAsked, "").Why; got != want {
			t.Errorf("glibc %s: %q, want %q", n, got, want)
		}
	}
}

// The kernel looks a relative interpreter up from the working directory.
func TestRelativeInterpreter(t *testing.T) {
	s := newStage(t)
	s.put("ld/ld.so", lib("ld.so"))
	s.put("p", tinyelf.Object{Interp: "ld/ld.so"})
	if l := s.load("p"); !l.Interp.Found || l.Stops() != "" {
		t.Errorf("%v %q", l.Interp.Found, l.Stops())
	}
	s.put("q", tinyelf.Object{Interp: "none/ld.so"})
	if l := s.load("q"); l.Stops() != "its interpreter none/ld.so does not exist" {
		t.Errorf("%q", l.Stops())
	}
}

func TestPointersOfGitLFS(t *testing.T) {
	s := newStage(t)
	const first = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345678\n"
	for text, want := range map[string]bool{first: true, "version https://example.org\n" + first: false, first + strings.Repeat("x", 1024): false, "INPUT(libx.so)": false, "": false} {
		s.raw("libx.so", text)
		if f := files.New(files.Options{}).Open(s.dir + "/libx.so"); f.IsLFSPointer() != want {
			t.Errorf("%.60q: %v", text, !want)
		}
	}
}

func TestSystemDirs(t *testing.T) {
	for text, want := range map[string]string{
		"\x00/lib/x86_64-linux-gnu/\x00/usr/lib/\x00/lib/\x00other\x00/lib64/\x00": "/lib/x86_64-linux-gnu/ /usr/lib/ /lib/",
		"/lib/\x00/etc/ld.so.cache\x00/%s/lib/\x00/nix/store/abc-glibc/lib/\x00":   "/nix/store/abc-glibc/lib/",
		"\x00/lib\x00/\x00a/lib/\x00/usr/lib64/\x00/l":                             "/usr/lib64/",
		"\x00/etc/\x00": "",
		"":              "",
	} {
		if got := strings.Join(systemDirs([]byte(text)), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// What stands at a loader's place and is none: NixOS's stub-ld, nix-ld, any static program. Musl's is its libc, which has
// no loader's name.
func TestWhatIsNoLoader(t *testing.T) {
	const at = "lib64/ld-linux-x86-64.so.2"
	const stub, says = "is NixOS's stub-ld, which prints a message and starts nothing", "NixOS cannot run dynamically linked executables"
	static, pie := tinyelf.Object{Type: elf.ET_EXEC}, tinyelf.Object{Flags1: elf.DF_1_PIE}
	for name, c := range map[string]struct {
		o    tinyelf.Object
		data string
		kind Kind
		why  string
	}{
		"glibc's":                        {lib("ld-linux-x86-64.so.2"), "", GLibc, ""},
		"glibc's, with another soname":   {lib("ld.so"), "", GLibc, ""},
		"musl's":                         {lib("libc.so"), "musl libc (x86_64)", Musl, ""},
		"stub-ld, static":                {static, says, GLibc, stub},
		"stub-ld, static-PIE":            {pie, says, GLibc, stub},
		"a static program":               {static, "GLIBC_PRIVATE\x00_rtld_global\x00/lib/\x00", GLibc, "is a static program and no dynamic loader"},
		"a static-PIE program":           {pie, "musl libc", GLibc, "is a static-PIE program and no dynamic loader"},
		"a library that exports nothing": {tinyelf.Object{}, "", GLibc, "exports nothing, so it is no dynamic loader"},
		"a dynamic program":              {prog(), "", GLibc, "has an interpreter itself, so it is no dynamic loader"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.o.Root, s.noReal = s.dir, true
			c.o.Data = c.data
			s.put(at, c.o)
			s.put("p", tinyelf.Object{Interp: "/" + at}.Needs("libc.so.6", "libx.so"))
			s.put("l.so", lib("l.so").Needs("libc.so.6", "libx.so"))
			s.put("lib/libx.so", lib("libx.so"))
			p, l := s.load("p"), s.load("l.so")
			if in := p.Interp; in.Kind != c.kind || in.Why != c.why || in.Found != (c.why == "") {
				t.Errorf("%s %v %q", in.Kind, in.Found, in.Why)
			}
			stops := ""
			if c.why != "" {
				stops = "its interpreter /" + at + " " + c.why
			}
			if got := p.Stops(); c.kind == GLibc && c.why != "" && got != stops {
				t.Errorf("%q, want %q", got, stops)
			}
			// Of a library, the program brings it.
			want := NotFound
			if c.why != "" {
				want = ByProcess
			} else if c.kind == Musl {
				want = ByLoader
			}
			if got := l.Objects[1].Rule; got != want {
				t.Errorf("the C library of a library: %s, want %s", got, want)
			}
		})
	}
}

// Guix's loader looks, before it looks by DT_RUNPATH, in a cache beside the program, whose store path tells where (Guix's
// glibc-dl-cache.patch); never in /etc/ld.so.cache.
func TestGuix(t *testing.T) {
	const glibc, package_ = "/gnu/store/0123456789abcdfghijklmnpqrsvwxyz-glibc-2.39", "/gnu/store/0123456789abcdfghijklmnpqrsvwxya-train"
	s := newStage(t)
	s.o.Root, s.noReal = s.dir, true
	s.put(glibc[1:]+"/lib/ld.so", tinyelf.Object{Data: "\x00release version 2.39\x00" + glibc + "/lib/\x00/gnu/store\x00/etc/ld.so.cache\x00/ld.so cache is lacking\x00"}.With(elf.DT_SONAME, "ld-linux-x86-64.so.2"))
	for _, name := range []string{"a", "b", "c"} {
		for _, dir := range []string{"host/", "run/", "cached/"} {
			s.put(dir+"lib"+name+".so", lib("lib"+name+".so"))
		}
	}
	p := tinyelf.Object{Interp: glibc + "/lib/ld.so"}.Needs("liba.so", "libb.so").With(elf.DT_RUNPATH, "/run")
	s.put("p", p)
	s.put(package_[1:]+"/bin/p", p)
	s.raw("etc/ld.so.cache", cacheOf("liba.so", "/host/liba.so"))
	s.raw(package_[1:]+"/etc/ld.so.cache", cacheOf("liba.so", "/cached/liba.so"))
	s.root(package_[1:]+"/bin/p", "liba.so", "/cached/liba.so", ByCache)
	s.root(package_[1:]+"/bin/p", "libb.so", "/run/libb.so", ByRunPath)
	s.root("p", "liba.so", "/run/liba.so", ByRunPath)
	s.put("q", tinyelf.Object{Interp: glibc + "/lib/ld.so"}.Needs("liba.so"))
	s.root("q", "liba.so", "", NotFound)
}

// nix-ld becomes another loader, with NIX_LD_LIBRARY_PATH for LD_LIBRARY_PATH. A library is loaded by whoever loads it.
func TestNixLD(t *testing.T) {
	const at, store = "/lib64/ld-linux-x86-64.so.2", "/nix/store/0123456789abcdfghijklmnpqrsvwxyz-glibc-2.40/lib"
	s := newStage(t)
	s.o.Root, s.noReal = s.dir, true
	s.put(at[1:], tinyelf.Object{Flags1: elf.DF_1_PIE, Data: "NIX_LD_LIBRARY_PATH\x00NIX_LD\x00"})
	s.put("p", tinyelf.Object{Interp: at}.Needs("libc.so.6", "libx.so", "liby.so"))
	s.put("l.so", lib("l.so").Needs("libc.so.6", "libx.so"))
	s.put("run/current-system/sw/share/nix-ld/lib/libx.so", lib("libx.so"))
	s.put("other/liby.so", lib("liby.so"))
	s.put("other/ld.so", tinyelf.Object{Data: "\x00release version 2.35\x00" + store + "/\x00"}.With(elf.DT_SONAME, "ld-linux-x86-64.so.2"))
	s.put(store[1:]+"/libc.so.6", lib("libc.so.6"))
	if got, want := s.load("p").Stops(), "its interpreter "+at+" is nix-ld, and the loader that it becomes, /run/current-system/sw/share/nix-ld/lib/ld.so, does not exist"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	s.link("/other/ld.so", "run/current-system/sw/share/nix-ld/lib/ld.so")
	rules := func(p string, want ...Rule) {
		t.Helper()
		for i, o := range s.load(p).Objects[1:] {
			if o.Rule != want[i] {
				t.Errorf("%s: %s by %s, want %s", p, o.Name, o.Rule, want[i])
			}
		}
	}
	rules("p", ByDefault, ByEnv, NotFound)
	if got := s.load("p"); got.Stops() != "liby.so: cannot open shared object file" && got.Interp.Path != at {
		t.Errorf("%q %q", got.Stops(), got.Interp.Path)
	}
	rules("l.so", ByProcess, NotFound)
	s.o.NixLDLibraryPath = "/other"
	rules("p", ByDefault, NotFound, ByEnv)
	s.o.NixLD = "/none"
	if got := s.load("p").Stops(); !strings.HasSuffix(got, "/none, does not exist") {
		t.Error(got)
	}
	// A program with more rights than its caller gets no directories of its caller's.
	s.o.NixLD, s.setID = "", true
	rules("p", ByDefault, NotFound, NotFound)
}
