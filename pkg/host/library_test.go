package host

import (
	"debug/elf"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/tests/tinyelf"
)

func TestExamine(t *testing.T) {
	m, err := MachineNamed("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	row, ok := driver.Lookup(driver.LibCUDA)
	if !ok {
		t.Fatal("libcuda.so.1 is no driver library")
	}
	good := tinyelf.Object{}.With(elf.DT_SONAME, driver.LibCUDA).Needs("libc.so.6", "libnss_files.so.2", "ld-linux-x86-64.so.2", "libX11.so.6")
	whole := string(good.Bytes())
	longer := good.Bytes() // by a byte than the file is, says its PT_LOAD
	for at := binary.LittleEndian.Uint64(longer[32:]); ; at += 56 {
		if binary.LittleEndian.Uint32(longer[at:]) == uint32(elf.PT_LOAD) {
			for _, size := range []uint64{32, 40} { // p_filesz, p_memsz
				binary.LittleEndian.PutUint64(longer[at+size:], uint64(len(longer))-binary.LittleEndian.Uint64(longer[at+8:])+1)
			}
			break
		}
	}
	for name, c := range map[string]struct {
		at, data string
		why      string // "": it can be used
		soname   string
	}{
		"a good one":           {"/lib/libcuda.so.1", whole, "", driver.LibCUDA},
		"without a soname":     {"/lib/libcuda.so.535.1.2", string(tinyelf.Object{}.Bytes()), "", "libcuda.so.535.1.2"},
		"cut off by a byte":    {"/lib/libcuda.so.1", string(longer), "is outside the file", ""},
		"of another soname":    {"/lib/libcuda.so.1", string(tinyelf.Object{}.With(elf.DT_SONAME, "libother.so.1").Bytes()), `its soname is "libother.so.1"`, ""},
		"in a stub directory":  {"/lib/stubs/libcuda.so.1", whole, "a stub", ""},
		"in a compat package":  {"/cuda/compat/libcuda.so.1", whole, "a compat package's", ""},
		"empty":                {"/lib/libcuda.so.1", "", "an empty file", ""},
		"for another machine":  {"/lib/libcuda.so.1", string(tinyelf.Object{Machine: elf.EM_AARCH64}.Bytes()), errOtherMachine.Error(), ""},
		"a program, not a PIE": {"/lib/libcuda.so.1", string(tinyelf.Object{Type: elf.ET_EXEC}.Bytes()), "not a shared library", ""},
	} {
		lib, err := host(t, map[string]string{c.at: c.data}).examine(c.at, row, m)
		switch {
		case c.why != "":
			if err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%s: %v, not %q", name, err, c.why)
			}
		case err != nil || lib.Soname != c.soname:
			t.Errorf("%s: soname %q, %v", name, lib.Soname, err)
		case name == "a good one" && !slices.Equal(lib.Needs, []string{"libX11.so.6"}):
			t.Errorf("the host's libraries that it needs are %q", lib.Needs)
		}
	}
}
