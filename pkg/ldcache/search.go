package ldcache

import "slices"

// Processor says which entries for hardware directories a loader uses. The zero
// value uses none.
type Processor struct {
	// Subdirs are the glibc-hwcaps subdirectories in use, the best first; none before glibc 2.33.
	Subdirs []string
	// ISA are the levels of x86-64 that it has, a bit each (GNU_PROPERTY_X86_ISA_1_…:
	// 1 the baseline, 2 v2, 4 v3, 8 v4).
	ISA uint32
	// Legacy is set for glibc before 2.37, which takes entries with a hardware mask:
	// those with no bit that is not in HWCaps, and with the platform's bit if with any of Platforms.
	Legacy    bool
	HWCaps    uint64
	Platforms uint64 // the bits that stand for platforms: _DL_HWCAP_PLATFORM
	Platform  uint64 // the processor's own; 0 for none of them
}

// hwcapTLS is _DL_HWCAP_TLS_MASK, the bit for directories named tls.
const hwcapTLS = 1 << 63

// uses reports whether the entry's hardware directory is one of the processor's, and
// for a glibc-hwcaps directory the rank among those.
func (p *Processor) uses(e *Entry) (rank int, ok bool) {
	switch {
	case e.named() && len(p.Subdirs) > 0:
		if level := e.HWCap >> 32 & isaLevelMask; p.ISA != 0 && p.ISA&(1<<level) == 0 {
			return 0, false // dl_cache_hwcap_isa_level_compatible
		}
		rank = slices.Index(p.Subdirs, e.HWCapName)
		return rank, rank >= 0
	case e.HWCap == 0:
		return 0, true
	case !p.Legacy || e.HWCap&^(p.HWCaps|p.Platforms|hwcapTLS) != 0:
		return 0, false
	}
	platform := e.HWCap & p.Platforms
	return 0, platform == 0 || platform == p.Platform
}

// Resolve returns the entry that the loader of an ABI takes for a soname: it is
// search_cache of elf/dl-cache.c, which also in a cache with damaged entries, or
// with entries out of order, finds what that finds.
func (c *Cache) Resolve(soname string, abi ABI, cpu Processor) (best Entry, ok bool) {
	id := abi.defaultFlags()
	left, right := 0, len(c.Entries)-1
	for left <= right {
		middle := (left + right) / 2
		if c.damaged[middle].soname {
			return Entry{}, false
		}
		order := compare(soname, c.Entries[middle].Soname)
		if order < 0 {
			left = middle + 1
			continue
		}
		if order > 0 {
			right = middle - 1
			continue
		}
		left = middle
		for middle > 0 && !c.damaged[middle-1].soname && compare(soname, c.Entries[middle-1].Soname) == 0 {
			middle--
		}
		bestRank := 0
		for ; middle <= right; middle++ {
			e := &c.Entries[middle]
			if middle > left && (c.damaged[middle].soname || compare(soname, e.Soname) != 0) {
				break
			}
			if !abi.accepts(e.Flags) || c.damaged[middle].path {
				continue
			}
			named := e.named() && len(cpu.Subdirs) > 0
			if !named && ok && !c.old {
				break
			}
			rank, usable := cpu.uses(e)
			if !usable || named && ok && rank >= bestRank {
				continue
			}
			best, ok, bestRank = *e, true, rank
			if !named && e.Flags == id {
				break
			}
		}
		return best, ok
	}
	return Entry{}, false
}

// compare is _dl_cache_libcmp: runs of digits compare as numbers (of 32 bits, which
// overflow), other bytes as they are. The cache is sorted downwards by it.
func compare(p, q string) int {
	at := func(s string, i int) byte {
		if i < len(s) {
			return s[i]
		}
		return 0
	}
	i, j := 0, 0
	for i < len(p) {
		switch a, b := p[i], at(q, j); {
		case digit(a) && digit(b):
			var x, y int32
			for ; digit(at(p, i)); i++ {
				x = x*10 + int32(p[i]-'0')
			}
			for ; digit(at(q, j)); j++ {
				y = y*10 + int32(q[j]-'0')
			}
			if x != y {
				return int(x - y)
			}
		case digit(a):
			return 1
		case digit(b):
			return -1
		case a != b:
			return int(int8(a)) - int(int8(b))
		default:
			i++
			j++
		}
	}
	return -int(int8(at(q, j)))
}

func digit(c byte) bool { return c >= '0' && c <= '9' }
