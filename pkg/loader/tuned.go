package loader

import (
	"slices"
	"strconv"
	"strings"
)

// tuning is the part of the environment about the processor: LD_HWCAP_MASK and GLIBC_TUNABLES. Programs with more
// rights than their caller do not read it.
type tuning struct{ mask, tunables string }

// tunable returns the last value that is set for one of glibc's tunables (elf/dl-tunables.c).
func (t tuning) tunable(name string) (value string, set bool) {
	for assignment := range strings.SplitSeq(t.tunables, ":") {
		if v, ok := strings.CutPrefix(assignment, name+"="); ok {
			value, set = v, true
		}
	}
	return value, set
}

// hwcapMask returns the hardware capabilities whose directories glibc before 2.37 searches; set is false for all of
// them.
func (t tuning) hwcapMask() (mask uint64, set bool) {
	text, set := t.tunable("glibc.cpu.hwcap_mask")
	if !set {
		text, set = t.mask, t.mask != ""
	}
	mask, _ = strconv.ParseUint(text, 0, 64)
	return mask, set
}

// x86Features are the features that levels and platforms of x86-64 depend on and
// GLIBC_TUNABLES=glibc.cpu.hwcaps=-NAME takes away (sysdeps/x86/cpu-tunables.c). The kernel's names are these in
// small letters, except for LZCNT.
const x86Features = "AVX AVX2 BMI1 BMI2 FMA LZCNT MOVBE POPCNT SSSE3 SSE4_1 SSE4_2 " +
	"AVX512F AVX512BW AVX512CD AVX512DQ AVX512VL AVX512ER AVX512PF"

// tuned returns the processor as a loader sees it in an environment. glibc.cpu.hwcaps is known for x86-64 since glibc
// 2.33.
func (c CPU) tuned(in *Interpreter, t tuning) CPU {
	if hwcaps, set := t.tunable("glibc.cpu.hwcaps"); set && c.isa != 0 && in.Version >= 33 {
		lost := func(features string) bool {
			return slices.ContainsFunc(strings.Split(hwcaps, ","), func(name string) bool {
				off, ok := strings.CutPrefix(name, "-")
				feature := strings.ToLower(off)
				if off == "LZCNT" {
					feature = "abm"
				}
				return ok && slices.Contains(strings.Fields(x86Features), off) &&
					slices.Contains(strings.Fields(features), feature)
			})
		}
		for level, features := range x86LevelFeatures { // each has what those below it have
			if i := slices.Index(c.Subdirs, x86Levels[len(x86Levels)-1-level]); i >= 0 && lost(features) {
				c.Subdirs = c.Subdirs[i+1:]
				break
			}
		}
		c.legacy = slices.Clone(c.legacy)
		if lost(avx512Features) {
			c.legacy = slices.DeleteFunc(c.legacy, func(name string) bool { return name == "avx512_1" })
		}
		if c.platform == "haswell" && lost(haswellFeatures) || c.platform == "xeon_phi" && lost(xeonPhiFeatures) {
			c.platform, c.legacy[len(c.legacy)-1] = "x86_64", "x86_64"
		}
	}
	if mask, set := t.hwcapMask(); set && len(c.legacy) > 1 && in.Version >= 26 {
		last := len(c.legacy) - 1 // the platform stays
		c.legacy = append(slices.DeleteFunc(slices.Clone(c.legacy[:last]), func(name string) bool {
			return hwcapBit[name]&mask == 0
		}), c.legacy[last])
	}
	return c
}
