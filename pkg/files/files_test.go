package files

import (
	"debug/elf"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"weak"

	"cuda-runpath/tests/tinyelf"
)

func put(t *testing.T, name string, o tinyelf.Object) {
	t.Helper()
	if err := os.WriteFile(name, o.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
}

// A path has at most PATH_MAX-1 bytes, however short another way to the file is.
func TestPathOfTheGreatestLength(t *testing.T) {
	dir := t.TempDir()
	put(t, dir+"/f", tinyelf.Object{})
	for _, length := range []int{4094, 4095, 4096, 4097} {
		in := dir + strings.Repeat("/", length-len(dir)-len("./f")) + "."
		p := in + "/f"
		_, errno := kernel(p)
		fs := New(Options{})
		fs.Open(dir + "/f") // it is known by a short path
		if f := fs.OpenIn(in, "f"); len(p) != length || (errno == nil) != (f.Errno == 0) || errno != nil && f.Errno != errno {
			t.Errorf("%d bytes: %v, the kernel: %v", len(p), f.Errno, errno)
		}
	}
}

// What a view makes of a file is the view's alone.
func TestEditedLeavesTheFile(t *testing.T) {
	p := t.TempDir() + "/liba.so"
	put(t, p, tinyelf.Object{}.With(elf.DT_RUNPATH, "/a").Needs("libold.so"))
	base := New(Options{})
	view := base.Edited(func(f *File) {
		f.List = "/b"
		f.Ask(map[string]string{"libold.so": "libnew.so"}, "libmore.so")
	})
	for range 2 { // the second time it is remembered
		if f := view.Open(p); f.List != "/b" || !slices.Equal(f.Needed, []string{"libnew.so", "libmore.so"}) {
			t.Errorf("the view: %s %q", f.List, f.Needed)
		}
		if f := base.Open(p); f.List != "/a" || !slices.Equal(f.Needed, []string{"libold.so"}) {
			t.Errorf("the file: %s %q", f.List, f.Needed)
		}
	}
}

// What a library lacks for a file: versions that this needs of it by the name, and not weakly; none, where it has none at all.
func TestLacks(t *testing.T) {
	dir := t.TempDir()
	put(t, dir+"/lib", tinyelf.Object{Defines: []string{"V_1"}})
	put(t, dir+"/plain", tinyelf.Object{})
	put(t, dir+"/by", tinyelf.Object{Requires: []tinyelf.Requirement{{Library: "liba.so", Version: "V_1"}, {Library: "liba.so", Version: "V_2"},
		{Library: "liba.so", Version: "V_3", Weak: true}, {Library: "libb.so", Version: "V_4"}}})
	fs := New(Options{})
	by := fs.Open(dir + "/by")
	for name, want := range map[string][]string{"lib liba.so": {"V_2"}, "lib libb.so": {"V_4"}, "lib libc.so": nil, "plain liba.so": nil} {
		file, as, _ := strings.Cut(name, " ")
		if got := fs.Open(dir+"/"+file).Lacks(by, as); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// A tree has many libraries, and the symbols of a large one take a hundred megabytes: they are there for who looks at them.
func TestSymbolsThatNobodyLooksAtAreGone(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	f := New(Options{}).Open(shell)
	l, err := f.Linkage()
	if err != nil {
		t.Skip(err)
	}
	n, kept := l.Symbols, weak.Make(l)
	if again, _ := f.Linkage(); again != l || n == 0 {
		t.Errorf("read twice, or there is nothing to read: %d symbols", n)
	}
	runtime.KeepAlive(l)
	l = nil
	runtime.GC()
	if kept.Value() != nil {
		t.Error("they are still there")
	}
	if l, err = f.Linkage(); err != nil || l.Symbols != n {
		t.Errorf("read again: %v", err)
	}
	runtime.KeepAlive(f)
}
