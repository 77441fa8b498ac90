package loader

import (
	"debug/elf"
	"testing"
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
