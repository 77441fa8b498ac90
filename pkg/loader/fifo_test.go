package loader

import (
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/files"
	"cuda-runpath/tests/tinyelf"
)

// What was looked at and is a FIFO by the time that it is opened keeps nobody waiting for a writer.
func TestFIFOsAreNotWaitedFor(t *testing.T) {
	dir := t.TempDir()
	listed, interpreter := filepath.Join(dir, "lib"), filepath.Join(dir, "ld-linux.so.2")
	err := errors.Join(os.Mkdir(listed, 0o755), os.WriteFile(interpreter, tinyelf.Object{}.With(elf.DT_SONAME, "ld-linux.so.2").Bytes(), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	l, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !l.files.IsDir(listed) || l.files.Open(interpreter).ELF == nil {
		t.Fatal("not what it should be")
	}
	for _, name := range []string{listed, interpreter} {
		if err := errors.Join(os.Remove(name), unix.Mkfifo(name, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for what, ask := range map[string]func(){
		"the directory": func() { l.files.Names(listed) },
		"the interpreter": func() {
			l.readInterpreter(systemKey{interp: interpreter, abi: files.ABI{Class: elf.ELFCLASS64, Data: elf.ELFDATA2LSB, Machine: elf.EM_X86_64}})
		},
	} {
		done := make(chan struct{})
		go func() { defer close(done); ask() }()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Errorf("%s is waited for", what)
		}
	}
}
