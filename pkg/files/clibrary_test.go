package files

import (
	"bytes"
	"debug/elf"
	"path/filepath"
	"testing"

	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/tests/tinyelf"
)

func TestLibrariesOfGLibc(t *testing.T) {
	for name, want := range map[string]bool{
		"libc.so.6": true, "libc.so.6.1": true, "libanl.so.1": true, "libnss_files.so.2": true, "libmvec.so.1": true, "libpcprofile.so": true,
		"libc.so": false, "libc.so.7": false, "libc.so.6.2": false, "libnsl.so.3": false, "libcrypt.so.1": false, "libgcc_s.so.1": false, "": false,
	} {
		if OfGLibc(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

func TestCLibrarysNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"libc.so.6": true, "libm.so.6": true, "ld-linux-x86-64.so.2": true, "libpthread.so.0": true, "libanl.so.1": true, "libc.so.6.1": true, "libnsl.so.2": false, "libm.so": false, "libc.so": true,
		"libgcc_s.so.1": false, "libstdc++.so.6": false, "libcrypt.so.1": false, "libcuda.so.1": false, "libc++.so.1": false, "libmy.so": false, "": false} {
		if OfCLibrary(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

// Which tag a run path gets in a file that has none.
func TestNewTag(t *testing.T) {
	t.Parallel()
	program := tinyelf.Object{Interp: "/lib64/ld-linux-x86-64.so.2"}
	for name, c := range map[string]struct {
		object tinyelf.Object
		want   elf.DynTag
	}{
		"program":                   {program.Needs("libx.so.1"), elf.DT_RUNPATH},
		"a library that starts":     {program.With(elf.DT_SONAME, "libQt5Core.so.5").Needs("libx.so.1"), elf.DT_RPATH},
		"library":                   {tinyelf.Object{}.Needs("libc.so.6", "libx.so.1"), elf.DT_RPATH},
		"C++":                       {tinyelf.Object{}.Needs("libstdc++.so.6", "libc.so.6"), elf.DT_RPATH},
		"the C library alone":       {tinyelf.Object{}.Needs("libm.so.6", "libc.so.6", "ld-linux-x86-64.so.2"), elf.DT_RUNPATH},
		"musl alone":                {tinyelf.Object{}.Needs("libc.musl-x86_64.so.1"), elf.DT_RUNPATH},
		"by path":                   {tinyelf.Object{}.Needs("/nix/store/x/lib/libc.so.6"), elf.DT_RUNPATH},
		"nothing":                   {tinyelf.Object{}, elf.DT_RUNPATH},
		"a filter":                  {tinyelf.Object{}.Needs("libc.so.6").With(elf.DT_FILTER, "libx.so.1"), elf.DT_RPATH},
		"an auxiliary filter":       {tinyelf.Object{}.Needs("libc.so.6").With(elf.DT_AUXILIARY, "libx.so.1"), elf.DT_RPATH},
		"unknown binding (machine)": {tinyelf.Object{Machine: elf.EM_MIPS}.Needs("libc.so.6"), elf.DT_RPATH},
	} {
		at := filepath.Join(t.TempDir(), "f")
		tinyelf.Put(t, at, c.object)
		if got := New(Options{}).Open(at).NewTag(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		b := c.object.Bytes()
		im, err := elfimage.ParseHead(bytes.NewReader(b), int64(len(b)), b)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := NewTag(im); got != c.want || err != nil {
			t.Errorf("%s, its image: %v %v, want %v", name, got, err, c.want)
		}
	}
}

// A library that opens others by name gets DT_RPATH, into whatever namespace it opens them: those inherit it, too.
func TestNewTagOfWhatOpensLibraries(t *testing.T) {
	for symbol, want := range map[string]elf.DynTag{"dlopen": elf.DT_RPATH, "dlmopen": elf.DT_RPATH, "dlsym": elf.DT_RUNPATH} {
		linkage := func() *elfimage.Linkage {
			return &elfimage.Linkage{References: []elfimage.Reference{{Name: "malloc"}, {Name: symbol}}}
		}
		if got := newTag(false, []string{"libc.so.6"}, linkage); got != want {
			t.Errorf("%s: %v, want %v", symbol, got, want)
		}
	}
}
