package patchelf

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"cuda-runpath/tests/tinyelf"
)

// Two that edit one file: the second waits for the first, and both are done.
func TestTwoEditsOfOneFile(t *testing.T) {
	made := tinyelf.Object{}.With(elf.DT_SONAME, "libtiny.so").With(elf.DT_RUNPATH, "/a/run/path/that/is/there").Bytes()
	dir := t.TempDir()
	var wrong int
	for i := range 200 {
		path := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(path, made, 0o755); err != nil {
			t.Fatal(err)
		}
		var said [2]bytes.Buffer
		var status [2]int
		var wait sync.WaitGroup
		for n, args := range [][]string{{"--set-rpath", "/b"}, {"--set-soname", "libb.so"}} {
			wait.Go(func() { status[n] = Run(append(args, path), &said[n], &said[n]) })
		}
		wait.Wait()
		var out bytes.Buffer
		Run([]string{"--print-rpath", "--print-soname", path}, &out, &out)
		if status != [2]int{} || out.String() != "libb.so\n/b\n" {
			if wrong++; wrong == 1 {
				t.Logf("status %d, %s%sthe file says %q", status, &said[0], &said[1], &out)
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d of 200 pairs", wrong)
	}
}

// What is printed before a file is edited is printed once, also where it is planned again.
func TestPrintedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(path, tinyelf.Object{}.With(elf.DT_RUNPATH, "/a/run/path").Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if status := Run([]string{"--print-rpath", "--set-rpath", "/b", path, path}, &out, &out); status != 0 || out.String() != "/a/run/path\n/b\n" {
		t.Errorf("status %d, %q", status, &out)
	}
}
