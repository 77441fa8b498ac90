package cmd_test

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"cuda-runpath/pkg/loader/tinyelf"
)

// A file that is made to keep explain busy does not take more memory than the machine has.
func TestMemoryOfAHostileFile(t *testing.T) {
	const most = 128 << 20 // bytes
	dir := t.TempDir()
	o := tinyelf.Object{Interp: "/lib64/ld-linux-x86-64.so.2"}
	var list []string
	for i := range 1500 {
		d := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		list = append(list, d)
	}
	for i := range 3000 { // each is looked for everywhere, until the search is given up
		o.Strings = append(o.Strings, tinyelf.Entry{Tag: elf.DT_NEEDED, Str: fmt.Sprintf("libmissing%d.so", i)})
	}
	o.Strings = append(o.Strings, tinyelf.Entry{Tag: elf.DT_RUNPATH, Str: strings.Join(list, ":")})
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, o.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("runpath", "explain", program)
	if out, _ := cmd.Output(); len(out) < 1<<20 {
		t.Errorf("%d bytes of output: not the file that was meant", len(out))
	}
	if used := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10; used > most {
		t.Errorf("%d MiB", used>>20)
	}
}
