package stubcode

import (
	"debug/elf"
	"testing"
)

func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		machine elf.Machine
		code    string
		want    bool
	}{
		{elf.EM_X86_64, "\xb8\x22\x00\x00\x00\xc3", true},
		{elf.EM_X86_64, "\xf3\x0f\x1e\xfa\x55\x48\x89\xe5\xb8\x22\x00\x00\x00\x5d\xc3", true},
		{elf.EM_X86_64, "\xb8\x00\x00\x00\x00\xc3", false},
		{elf.EM_X86_64, "\x31\xc0\xc3", false},
		{elf.EM_X86_64, "\xb8\x22\x00\x00\x00\x0f\x05\xc3", false}, // a system call
		{elf.EM_AARCH64, "\x40\x04\x80\x52\xc0\x03\x5f\xd6", true},
		{elf.EM_AARCH64, "\x00\x00\x80\x52\xc0\x03\x5f\xd6", false},
		{elf.EM_PPC64, "\xb8\x22\x00\x00\x00\xc3", false},
		{elf.EM_X86_64, "", false},
	} {
		if got := Answers(c.machine, []byte(c.code)); got != c.want {
			t.Errorf("%v %x: %v", c.machine, c.code, got)
		}
	}
}
