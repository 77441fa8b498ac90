package loader

import (
	"debug/elf"
	"strings"
	"testing"
)

// What LD_HWCAP_MASK and GLIBC_TUNABLES leave of the search, as LD_DEBUG=libs of glibc 2.36 shows it.
func TestTuned(t *testing.T) {
	amd := CPU{Subdirs: x86Levels, legacy: []string{"x86_64", "x86_64"}, isa: 15, platform: "x86_64"}
	intel := CPU{Subdirs: x86Levels, legacy: []string{"x86_64", "avx512_1", "haswell"}, isa: 15, platform: "haswell"}
	phi := CPU{Subdirs: x86Levels[1:], legacy: []string{"x86_64", "xeon_phi"}, isa: 7, platform: "xeon_phi"}
	arm := CPU{legacy: []string{"atomics", "aarch64"}, platform: "aarch64"}
	for _, c := range []struct {
		cpu     CPU
		version Version
		t       tuning
		want    string
	}{
		{amd, 36, tuning{}, "x86-64-v4 x86-64-v3 x86-64-v2 | x86_64 x86_64 | x86_64"},
		{amd, 36, tuning{mask: "0"}, "x86-64-v4 x86-64-v3 x86-64-v2 | x86_64 | x86_64"},
		{amd, 36, tuning{mask: "0x2"}, "x86-64-v4 x86-64-v3 x86-64-v2 | x86_64 x86_64 | x86_64"},
		{amd, 36, tuning{"2", "glibc.cpu.hwcap_mask=2:glibc.cpu.hwcap_mask=0"}, "x86-64-v4 x86-64-v3 x86-64-v2 | x86_64 | x86_64"},
		{amd, 36, tuning{tunables: "glibc.malloc.check=1:glibc.cpu.hwcaps=-AVX2"}, "x86-64-v2 | x86_64 x86_64 | x86_64"},
		{amd, 36, tuning{tunables: "glibc.cpu.hwcaps=-SSSE3,-AVX512F"}, " | x86_64 x86_64 | x86_64"},
		{amd, 36, tuning{tunables: "glibc.cpu.hwcaps=AVX2,-avx2,-F16C,-Slow_BSF,-"}, "x86-64-v4 x86-64-v3 x86-64-v2 | x86_64 x86_64 | x86_64"},
		{amd, 31, tuning{tunables: "glibc.cpu.hwcaps=-AVX2"}, "x86-64-v4 x86-64-v3 x86-64-v2 | x86_64 x86_64 | x86_64"},
		{intel, 36, tuning{tunables: "glibc.cpu.hwcaps=-AVX512CD"}, "x86-64-v3 x86-64-v2 | x86_64 haswell | haswell"},
		{intel, 36, tuning{tunables: "glibc.cpu.hwcaps=-BMI1"}, "x86-64-v2 | x86_64 avx512_1 x86_64 | x86_64"},
		{intel, 36, tuning{mask: "4"}, "x86-64-v4 x86-64-v3 x86-64-v2 | avx512_1 haswell | haswell"},
		{phi, 36, tuning{tunables: "glibc.cpu.hwcaps=-AVX512PF"}, "x86-64-v3 x86-64-v2 | x86_64 x86_64 | x86_64"},
		{arm, 36, tuning{"0", "glibc.cpu.hwcaps=-AVX2"}, " | aarch64 | aarch64"},
		{arm, 36, tuning{mask: "256"}, " | atomics aarch64 | aarch64"},
	} {
		before := strings.Join(c.cpu.legacy, " ")
		got := c.cpu.tuned(&Interpreter{Version: c.version}, c.t)
		if said := strings.Join(got.Subdirs, " ") + " | " + strings.Join(got.legacy, " ") + " | " + got.platform; said != c.want {
			t.Errorf("%+v: %s, want %s", c.t, said, c.want)
		}
		if strings.Join(c.cpu.legacy, " ") != before {
			t.Fatal("the processor itself was changed")
		}
	}
}

// glibc 2.37 is the first without combined subdirectories and hardware capabilities in ld.so.cache.
func TestLastLoaderWithHardwareCapabilities(t *testing.T) {
	cpu := CPU{Subdirs: x86Levels, legacy: []string{"x86_64", "haswell"}, isa: 7, platform: "haswell"}
	for version, legacy := range map[Version]bool{36: true, 37: false, 38: false} {
		in := &Interpreter{Version: version, hwcaps: true}
		if p := cpu.processor(in, elf.EM_X86_64); p.Legacy != legacy || (p.HWCaps != 0) != legacy || (p.Platform != 0) != legacy {
			t.Errorf("2.%d: %+v", version, p)
		}
		if dirs := cpu.subdirs(in); (len(dirs) > len(x86Levels)+1) != legacy || dirs[len(dirs)-1] != "" {
			t.Errorf("2.%d: %q", version, dirs)
		}
	}
}
