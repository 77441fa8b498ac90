package loader

import (
	"debug/elf"
	"testing"
)

func TestHardwareDirectories(t *testing.T) {
	for name := range hwcapBit {
		if !HardwareDirectory(name) {
			t.Error(name)
		}
	}
	if !HardwareDirectory("tls") || !HardwareDirectory("glibc-hwcaps") || HardwareDirectory("lib") || HardwareDirectory("") {
		t.Error("tls, glibc-hwcaps, lib")
	}
	// What the processor of a program has is among them.
	for _, m := range []elf.Machine{elf.EM_X86_64, elf.EM_386, elf.EM_AARCH64} {
		for _, name := range cpuFor("baseline", m).legacy {
			if !HardwareDirectory(name) {
				t.Error(m, name)
			}
		}
	}
}
