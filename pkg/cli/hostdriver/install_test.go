package hostdriver

import (
	"debug/elf"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cuda-runpath/pkg/loader/tinyelf"
)

// library writes a library of the driver into a tree, with the link of its soname.
func library(t *testing.T, dir, soname, version string, o tinyelf.Object) {
	t.Helper()
	stem, _, _ := strings.Cut(soname, ".so")
	write(t, filepath.Join(dir, stem+".so."+version), string(o.With(elf.DT_SONAME, soname).Bytes()))
	if err := os.Symlink(stem+".so."+version, filepath.Join(dir, soname)); err != nil {
		t.Fatal(err)
	}
}

// hostTree returns a tree of a host with a driver for x86-64, a library of which loads another.
func hostTree(t *testing.T) string {
	t.Helper()
	tree := t.TempDir()
	if err := os.Mkdir(filepath.Join(tree, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(tree, "usr/lib64")
	library(t, dir, "libcuda.so.1", "535.1.2", tinyelf.Object{}.Needs("libnvidia-ptxjitcompiler.so.1"))
	library(t, dir, "libnvidia-ptxjitcompiler.so.1", "535.1.2", tinyelf.Object{})
	library(t, dir, "libnvidia-ml.so.1", "535.1.2", tinyelf.Object{})
	return tree
}

// The driver's 32-bit libraries are gone since the last time: their link goes too, and what somebody else made stays.
func TestInstallWithdrawsADriverThatIsGone(t *testing.T) {
	tree := hostTree(t)
	link32 := filepath.Join(tree, "run/opengl-driver-32/lib")
	library(t, filepath.Join(tree, "usr/lib32"), "libcuda.so.1", "535.1.2", tinyelf.Object{Class: elf.ELFCLASS32, Machine: elf.EM_386})
	if status, said := runs("install", "--root", tree); status != 0 || strings.Count(said, ": made (") != 2 {
		t.Fatalf("status %d, %q", status, said)
	}
	if err := os.RemoveAll(filepath.Join(tree, "usr/lib32")); err != nil {
		t.Fatal(err)
	}
	if status, said := runs("install", "--root", tree, "--dry-run"); status != 0 || !strings.Contains(said, "/run/opengl-driver-32/lib: would be removed") {
		t.Errorf("status %d, %q", status, said)
	}
	for _, args := range [][]string{{"--machine", "x86_64"}, {"--from", "/usr/lib64"}} { // which say nothing of the other machine
		runs(append([]string{"install", "--root", tree}, args...)...)
		if _, err := os.Readlink(link32); err != nil {
			t.Fatal(args, err)
		}
	}
	if status, said := runs("install", "--root", tree); status != 0 || !strings.Contains(said, "/run/opengl-driver-32/lib: removed") {
		t.Errorf("status %d, %q", status, said)
	}
	if _, err := os.Lstat(filepath.Dir(link32)); err == nil {
		t.Error("it is still there")
	}
	if err := os.MkdirAll(link32, 0o755); err != nil {
		t.Fatal(err)
	}
	if status, said := runs("install", "--root", tree); status != 0 {
		t.Errorf("status %d, %q", status, said)
	}
	if _, err := os.Lstat(link32); err != nil {
		t.Error(err)
	}
}

// systemd takes "$" in the path of a program as it is, and "%" and what ends a word as written here (systemd-analyze verify).
func TestProgramOfTheUnit(t *testing.T) {
	tree := hostTree(t)
	for program, want := range map[string]string{
		"/usr/bin/hostDriver": "/usr/bin/hostDriver install", "/a$b": "/a$b install", "/100%": "/100%% install", "/a b": `/a\x20b install`, "/a\nb": `/a\x0ab install`,
	} {
		_, said := runs("tmpfiles", "--root", tree, "--program", program, "--part", "service")
		if !strings.Contains(said, "\nExecStart="+want+"\n") {
			t.Errorf("%s: %s", program, said)
		}
	}
	if _, said := runs("tmpfiles", "--root", tree, "--prefix", "/a$b", "--program", "/p", "--part", "service"); !strings.Contains(said, "\nExecStart=/p install --prefix /a$$b\n") {
		t.Error(said)
	}
}
