package ldcache

import (
	"slices"
	"sort"
	"strings"
)

// Lookup returns the entries for a soname, in the order in which the loader
// prefers them: glibc-hwcaps directories first, the best one first, then the
// others in file order. An entry may be for another machine: see [Entry.Fits].
func (c *Cache) Lookup(soname string) []Entry {
	c.named.Do(func() {
		c.byName = make(map[string][]int, len(c.Entries))
		for i, e := range c.Entries {
			if !c.damaged[i].soname {
				key := canonical(e.Soname)
				c.byName[key] = append(c.byName[key], i)
			}
		}
	})
	indices := c.byName[canonical(soname)]
	if len(indices) == 0 {
		return nil
	}
	found := make([]Entry, len(indices))
	for i, index := range indices {
		found[i] = c.Entries[index]
	}
	sort.SliceStable(found, func(i, j int) bool {
		a, b := found[i], found[j]
		if a.named() != b.named() {
			return a.named()
		}
		return a.named() && hwcapRank(a.HWCapName) < hwcapRank(b.HWCapName)
	})
	return found
}

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
			if !named && ok && c.Format != Old {
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

// hwcapsByPreference are the glibc-hwcaps directories, the best first (each machine's dl-hwcaps-subdirs.c).
var hwcapsByPreference = []string{
	"x86-64-v4", "x86-64-v3", "x86-64-v2", "power10", "power9", "z17", "z16", "z15", "z14", "z13",
}

func hwcapRank(name string) int {
	for i, n := range hwcapsByPreference {
		if n == name {
			return i
		}
	}
	return len(hwcapsByPreference)
}

// canonical returns a form of a soname in which two names are the same exactly
// where _dl_cache_libcmp says so: it compares runs of digits as numbers.
func canonical(soname string) string {
	if !strings.Contains(soname, "0") {
		return soname
	}
	var s strings.Builder
	for i := 0; i < len(soname); {
		j := i
		for j < len(soname) && digit(soname[j]) {
			j++
		}
		if j == i {
			s.WriteByte(soname[i])
			i++
			continue
		}
		number := strings.TrimLeft(soname[i:j], "0")
		if number == "" {
			number = "0"
		}
		s.WriteString(number)
		i = j
	}
	return s.String()
}

func digit(c byte) bool { return c >= '0' && c <= '9' }
