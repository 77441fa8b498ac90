package cmd_test

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"strings"
	"testing"
)

// What takes GPU code out finishes an edit that was interrupted, as every edit does, also where there is nothing to take out.
func TestThinFinishesAnInterruptedEdit(t *testing.T) {
	for _, args := range []string{"--for 8.0 --keep-length", "--for 8.0 --cut", "--for 7.5,8.0,8.9+PTX"} {
		t.Run(args, func(t *testing.T) {
			t.Chdir(t.TempDir())
			code := ".section .nv_fatbin,\"a\"; .4byte 0xBA55ED50; .2byte 1, 16; .8byte 2f-1f; 1: " + strings.Repeat(entryOf(2, 75), 1000) + entryOf(2, 80) + "2:\n"
			if err := os.WriteFile("code.s", []byte(code), 0o644); err != nil {
				t.Fatal(err)
			}
			library(t, "f.so", "", "", "code.s")
			b, _ := os.ReadFile("f.so")
			for at := 64; ; at += 56 { // pkg/elfedit/doc.go: a flag of a PT_LOAD, and no record
				if binary.LittleEndian.Uint32(b[at:]) == uint32(elf.PT_LOAD) {
					b[at+6] |= 0x80
					break
				}
			}
			if err := os.WriteFile("f.so", b, 0o755); err != nil {
				t.Fatal(err)
			}
			if said := tool(t, "runpath", "show", "f.so"); !strings.Contains(said, "interrupted") {
				t.Fatalf("the test tests nothing: %s", said)
			}
			said := tool(t, "runpath", append([]string{"thin"}, append(strings.Fields(args), "f.so")...)...)
			if shown := tool(t, "runpath", "show", "f.so"); strings.Contains(shown, "interrupted") {
				t.Errorf("%s%s", said, shown)
			}
		})
	}
}
