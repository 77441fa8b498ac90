package ldcache

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	x86_64 = ABI{Machine: elf.EM_X86_64, Class: elf.ELFCLASS64}
	i386   = ABI{Machine: elf.EM_386, Class: elf.ELFCLASS32}
)

type appendOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// Format is the layout of a cache file, by ldconfig's option --format.
type Format string

const (
	Old    Format = "old"    // libc5 and glibc 2.0 and 2.1; glibc still reads it
	Compat Format = "compat" // the new one after the old one; the default before glibc 2.32
	New    Format = "new"
)

// cacheFile writes cache files, so that both byte orders can be tested on one machine.
type cacheFile struct {
	order   appendOrder
	format  Format
	align   int // of the new header in the compat layout
	marked  bool
	entries []Entry
}

func (f cacheFile) bytes() []byte {
	var names []string
	index := map[string]int{}
	for _, e := range f.entries {
		if e.HWCapName != "" && index[e.HWCapName] == 0 {
			names = append(names, e.HWCapName)
			index[e.HWCapName] = len(names)
		}
	}
	var strs []byte
	add := func(s string) uint32 {
		at := len(strs)
		strs = append(append(strs, s...), 0)
		return uint32(at)
	}
	type pair struct{ key, value uint32 }
	var pairs []pair
	for _, e := range f.entries {
		pairs = append(pairs, pair{add(e.Soname), add(e.Path)})
	}
	var hwcaps []uint32
	for _, n := range names {
		hwcaps = append(hwcaps, add(n))
	}
	var b []byte
	u32 := func(v uint32) { b = f.order.AppendUint32(b, v) }
	offset := uint32(headerNew + entryNew*len(f.entries))
	if f.format == Old {
		offset = 0
	}
	if f.format != New {
		b = append(append(b, magicOld...), 0)
		u32(uint32(len(f.entries)))
		for i, e := range f.entries {
			u32(e.Flags)
			u32(offset + pairs[i].key)
			u32(offset + pairs[i].value)
		}
		if f.format == Old {
			return append(b, strs...)
		}
		for len(b)%f.align != 0 {
			b = append(b, 0)
		}
	}
	start := len(b)
	b = append(b, magicNew...)
	u32(uint32(len(f.entries)))
	u32(uint32(len(strs)))
	flags := uint32(0)
	if f.marked {
		flags = endianLittle
		if f.order == binary.BigEndian {
			flags = endianBig
		}
	}
	b = append(b, byte(flags), 0, 0, 0)
	extension := (start + int(offset) + len(strs) + 3) &^ 3
	u32(uint32(extension))
	b = append(b, make([]byte, 12)...)
	for i, e := range f.entries {
		u32(e.Flags)
		u32(offset + pairs[i].key)
		u32(offset + pairs[i].value)
		u32(0)
		cap := e.HWCap
		if e.HWCapName != "" {
			cap |= hwcapExtension | uint64(index[e.HWCapName]-1)
		}
		b = f.order.AppendUint64(b, cap)
	}
	b = append(b, strs...)
	for len(b) < extension {
		b = append(b, 0)
	}
	u32(extensionMagic)
	u32(2)
	const generator = "a test"
	u32(0)
	u32(0)
	u32(uint32(extension + 8 + 32))
	u32(uint32(len(generator)))
	u32(1)
	u32(0)
	u32(uint32(extension + 8 + 32 + 8))
	u32(uint32(4 * len(hwcaps)))
	b = append(append(b, generator...), 0, 0)
	for _, h := range hwcaps {
		u32(offset + h)
	}
	return b
}

var sample = []Entry{
	{Soname: "libz.so.1", Path: "/lib64/libz.so.1", Flags: 0x303},
	{Soname: "libz.so.1", Path: "/lib/libz.so.1", Flags: 3},
	{Soname: "libp.so", Path: "/lib64/tls/haswell/libp.so", Flags: 0x303, HWCap: 1<<63 | 1<<50 | 1<<3},
	{Soname: "libp.so", Path: "/lib64/haswell/libp.so", Flags: 0x303, HWCap: 1 << 50},
	{Soname: "libp.so", Path: "/lib64/libp.so", Flags: 0x303},
	{Soname: "libcuda.so.1", Path: "/lib64/libcuda.so.1", Flags: 0x303},
	{Soname: "libcuda.so.1", Path: "/opt/libcuda.so.1", Flags: 0x303},
	{Soname: "libcuda.so.1", Path: "/lib/libcuda.so.1", Flags: 3},
	{Soname: "liba.so", Path: "/lib64/glibc-hwcaps/x86-64-v2/liba.so", Flags: 0x303, HWCapName: "x86-64-v2"},
	{Soname: "liba.so", Path: "/lib64/glibc-hwcaps/x86-64-v3/liba.so", Flags: 0x303, HWCap: 2 << 32, HWCapName: "x86-64-v3"},
	{Soname: "liba.so", Path: "/lib64/tls/liba.so", Flags: 0x303, HWCap: 1 << 5},
	{Soname: "liba.so", Path: "/lib64/liba.so", Flags: 0x303},
}

// named returns the entries of a soname.
func named(c *Cache, soname string) []Entry {
	return slices.DeleteFunc(slices.Clone(c.Entries), func(e Entry) bool { return e.Soname != soname })
}

func parse(t *testing.T, b []byte) *Cache {
	t.Helper()
	c, err := Parse(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEveryLayoutAndByteOrder(t *testing.T) {
	for _, order := range []appendOrder{binary.LittleEndian, binary.BigEndian} {
		for _, f := range []cacheFile{
			{order, Old, 0, false, sample},
			{order, Compat, 8, true, sample},
			{order, Compat, 8, false, sample[:11]},
			{order, Compat, 4, true, sample},
			{order, Compat, 4, true, sample[:11]},
			{order, New, 0, true, sample},
			{order, New, 0, false, sample},
			{order, New, 0, true, nil},
		} {
			c := parse(t, f.bytes())
			if c.old != (f.format == Old) || c.order != order {
				t.Errorf("%v: read as old: %v, %v", f, c.old, c.order)
			}
			var want []Entry
			for i, e := range f.entries {
				got := c.Entries[i]
				if f.format == Old {
					e.HWCap, e.HWCapName = 0, ""
				}
				if f.format == Compat { // as the loader: see extensions
					got.HWCapName, e.HWCapName = "", ""
				}
				if e.HWCapName != "" || f.format == Compat {
					got.HWCap, e.HWCap = 0, 0
				}
				if diff := cmp.Diff(e, got); diff != "" {
					t.Errorf("%s %v, entry %d: %s", f.format, order, i, diff)
				}
				want = append(want, e)
			}
			if len(c.Entries) != len(want) {
				t.Errorf("%s %v: %d entries, want %d", f.format, order, len(c.Entries), len(want))
			}
		}
	}
}

func TestResolveTakesWhatTheLoaderTakes(t *testing.T) {
	c := parse(t, cacheFile{binary.LittleEndian, New, 0, true, sample}.bytes())
	none := Processor{}
	level := func(isa uint32, subdirs ...string) Processor { return Processor{Subdirs: subdirs, ISA: isa} }
	legacy := func(hwcaps, platform uint64) Processor {
		return Processor{Legacy: true, HWCaps: hwcaps, Platforms: 3 << 50, Platform: platform}
	}
	for _, test := range []struct {
		soname string
		abi    ABI
		cpu    Processor
		want   string
	}{
		{"libcuda.so.1", x86_64, none, "/lib64/libcuda.so.1"},
		{"libcuda.so.1", i386, none, "/lib/libcuda.so.1"},
		{"libcuda.so.01", i386, none, "/lib/libcuda.so.1"}, // numbers compare as numbers
		{"libcuda.so.10", i386, none, ""},
		{"libcuda.so.1", ABI{Machine: elf.EM_AARCH64, Class: elf.ELFCLASS64}, none, ""},
		{"libcuda.so.1", ABI{Machine: elf.EM_X86_64, Class: elf.ELFCLASS32}, none, ""}, // x32
		{"liba.so", x86_64, none, "/lib64/liba.so"},
		{"liba.so", x86_64, level(3, "x86-64-v2"), "/lib64/glibc-hwcaps/x86-64-v2/liba.so"},
		{"liba.so", x86_64, level(15, "x86-64-v4", "x86-64-v3", "x86-64-v2"), "/lib64/glibc-hwcaps/x86-64-v3/liba.so"},
		// The processor lacks what the entry's ISA level asks for, whatever its directory is called.
		{"liba.so", x86_64, level(3, "x86-64-v3", "x86-64-v2"), "/lib64/glibc-hwcaps/x86-64-v2/liba.so"},
		// Before 2.37, masks count: bits of the hardware, of the platform, and of "tls".
		{"liba.so", x86_64, legacy(2, 0), "/lib64/liba.so"},
		{"liba.so", x86_64, legacy(1<<5|2, 0), "/lib64/tls/liba.so"},
		{"libp.so", x86_64, legacy(2, 1<<50), "/lib64/haswell/libp.so"},
		{"libp.so", x86_64, legacy(2, 1<<51), "/lib64/libp.so"},
		{"libp.so", x86_64, none, "/lib64/libp.so"},
		{"", x86_64, none, ""},
	} {
		e, ok := c.Resolve(test.soname, test.abi, test.cpu)
		if e.Path != test.want || ok != (test.want != "") {
			t.Errorf("%s for %v: %q, %v; want %q", test.soname, test.abi.Machine, e.Path, ok, test.want)
		}
	}
}

func TestNumbersCompareAsNumbers(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"libfoo.so.01", "libfoo.so.1", 0}, {"lib00.so", "lib0.so", 0}, {"lib1001.so.002.0", "lib1001.so.2.0", 0}, {"007", "7", 0}, {"", "", 0},
		{"lib.so.10", "lib.so.9", 1}, {"lib.so.1", "lib.so.a", 1}, {"lib.so.a", "lib.so.1", -1}, {"liba", "libb", -1}, {"lib.so", "lib.so.1", -1},
	} {
		if got := compare(c.a, c.b); got < 0 != (c.want < 0) || got > 0 != (c.want > 0) {
			t.Errorf("%q and %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestFlagsOfEachMachine(t *testing.T) {
	for _, test := range []struct {
		abi  ABI
		want uint32
	}{
		{x86_64, 0x303}, {i386, 3}, {ABI{elf.EM_X86_64, elf.ELFCLASS32, 0}, 0x803},
		{ABI{elf.EM_AARCH64, elf.ELFCLASS64, 0}, 0xa03}, {ABI{elf.EM_ARM, elf.ELFCLASS32, 0x5000400}, 0x903},
		{ABI{elf.EM_ARM, elf.ELFCLASS32, 0x5000200}, 0xb03}, {ABI{elf.EM_PPC64, elf.ELFCLASS64, 2}, 0x503},
		{ABI{elf.EM_S390, elf.ELFCLASS64, 0}, 0x403}, {ABI{elf.EM_S390, elf.ELFCLASS32, 0}, 3},
		{ABI{elf.EM_RISCV, elf.ELFCLASS64, 5}, 0x1003}, {ABI{elf.EM_RISCV, elf.ELFCLASS64, 1}, 0xf03},
		{ABI{elf.EM_MIPS, elf.ELFCLASS64, 0}, 0x703}, {ABI{elf.EM_MIPS, elf.ELFCLASS32, 0x20}, 0x603},
		{ABI{elf.EM_MIPS, elf.ELFCLASS32, 0}, 3}, {ABI{elf.EM_LOONGARCH, elf.ELFCLASS64, 0x43}, 0x1203},
		{ABI{elf.EM_SPARCV9, elf.ELFCLASS64, 0}, 0x103}, {ABI{elf.EM_68K, elf.ELFCLASS32, 0}, 3},
	} {
		if got := test.abi.defaultFlags(); got != test.want {
			t.Errorf("%v: %#x, want %#x", test.abi, got, test.want)
		}
	}
	if !(Entry{Flags: 1}).Fits(i386) || (Entry{Flags: 1}).Fits(x86_64) || (Entry{Flags: 3}).Fits(x86_64) {
		t.Error("only the generic test takes FLAG_ELF")
	}
	hard, soft, any := ABI{elf.EM_ARM, elf.ELFCLASS32, 0x5000400}, ABI{elf.EM_ARM, elf.ELFCLASS32, 0x5000200}, ABI{elf.EM_ARM, elf.ELFCLASS32, 0x5000000}
	for flags, want := range map[uint32][3]bool{0x903: {true, false, true}, 0xb03: {false, true, true}, 3: {true, true, true}, 1: {false, false, false}} {
		e := Entry{Flags: flags}
		if got := [3]bool{e.Fits(hard), e.Fits(soft), e.Fits(any)}; got != want {
			t.Errorf("32-bit ARM takes entries of one float ABI, its own, or of none: %#x: %v", flags, got)
		}
	}
}

func TestDamagedCaches(t *testing.T) {
	good := cacheFile{binary.LittleEndian, New, 0, true, sample}.bytes()
	patched := func(at int, v uint32) []byte {
		b := bytes.Clone(good)
		binary.LittleEndian.PutUint32(b[at:], v)
		return b
	}
	extension := int(binary.LittleEndian.Uint32(good[32:]))
	old := cacheFile{binary.LittleEndian, Old, 0, false, sample[:8]}.bytes()
	for name, b := range map[string][]byte{
		"entries beyond the file":   patched(20, 0x7fffffff),
		"all the entries there are": patched(20, 0xffffffff),
		"marked invalid":            patched(28, 1),
		"cut in the header":         good[:40],
		"cut in the table":          good[:100],
		"old, entries beyond":       append(bytes.Clone(old[:12]), 0xff, 0xff, 0xff, 0xff),
	} {
		var fe *FormatError
		if _, err := Parse(bytes.NewReader(b), int64(len(b))); !errors.As(err, &fe) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, test := range map[string]struct {
		b    []byte
		want string // the entry for libp.so of a processor that knows x86-64-v2, as far as it is whole
	}{
		"soname outside, met by the search": {patched(headerNew+5*entryNew+4, 0xfffffff0), ""},
		"soname outside, not met":           {patched(headerNew+4, 0xfffffff0), "/lib64/libp.so"},
		"path outside":                      {patched(headerNew+4*entryNew+8, uint32(len(good))), ""},
		"extension outside":                 {patched(32, uint32(len(good))&^3), "/lib64/libp.so"},
		"extension not aligned":             {patched(32, uint32(extension+1)), "/lib64/libp.so"},
		"wrong extension magic":             {patched(extension, 7), "/lib64/libp.so"},
		"too many extensions":               {patched(extension+4, 0x10000000), "/lib64/libp.so"},
		"extension data outside":            {patched(extension+8+8, 0xffffff00), "/lib64/libp.so"},
	} {
		c, err := Parse(bytes.NewReader(test.b), int64(len(test.b)))
		var fe *FormatError
		if err != nil || !errors.As(c.Damage, &fe) {
			t.Errorf("%s: %v, damage %v", name, err, c)
			continue
		}
		if e, ok := c.Resolve("libp.so", x86_64, Processor{Subdirs: []string{"x86-64-v2"}, ISA: 3}); e.Path != test.want || ok != (test.want != "") {
			t.Errorf("%s: %q, %v; want %q", name, e.Path, ok, test.want)
		}
	}
	for _, s := range []string{"", "#!/bin/sh\nexec true\n", "\x7fELF", "ld.so-1.7.0", strings.Repeat("x", 100)} {
		if _, err := Parse(strings.NewReader(s), int64(len(s))); err != errNotCache {
			t.Errorf("%q: %v", s, err)
		}
	}
	if _, err := Parse(bytes.NewReader(good), int64(len(good))+1); err == nil {
		t.Error("a file that is shorter than it was said to be")
	}
}

var printed = regexp.MustCompile(`^\t(.*) \((libc6|ELF)([^)"]*?)(?:, hwcap: "(.*)")?\) => (.*)$`)

// A cache whose strings overlap takes no more memory, and not much more time, than its size.
func TestOverlappingStrings(t *testing.T) {
	le := binary.LittleEndian
	const entries, extensions = 10_000, 1000
	b := append([]byte(magicNew), make([]byte, headerNew-len(magicNew)+entries*entryNew)...)
	le.PutUint32(b[20:], entries)
	b[28] = endianLittle
	zeros := uint32(len(b))
	b = append(append(b, bytes.Repeat([]byte("0"), maxString-1)...), 0)
	for i := range entries {
		le.PutUint32(b[headerNew+i*entryNew+4:], zeros)
		le.PutUint32(b[headerNew+i*entryNew+8:], zeros)
	}
	le.PutUint32(b[32:], uint32(len(b)))
	b = le.AppendUint32(le.AppendUint32(b, extensionMagic), extensions)
	for range extensions {
		for _, v := range []uint32{extensionHWCaps, 0, 0, zeros} {
			b = le.AppendUint32(b, v)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	c := parse(t, b)
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	if used := (after.TotalAlloc - before.TotalAlloc) / uint64(len(b)); used > 40 || took > 20*time.Second {
		t.Errorf("%d entries in %d bytes took %v and %d times the file's size", len(c.Entries), len(b), took, used)
	}
}

// sameAsPrinted compares a cache with what ldconfig -p prints of it.
func sameAsPrinted(t *testing.T, file string) *Cache {
	t.Helper()
	cmd := exec.Command("/sbin/ldconfig", "-p", "-C", file)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("ldconfig -p -C %s: %v", file, err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := parse(t, b)
	types := map[string]uint32{"ELF": flagELF, "libc6": flagLibc6}
	kinds := map[string]uint32{"": 0, ",x86-64": 0x300, ",x32": 0x800, ",AArch64": 0xa00, ",hard-float": 0x900}
	var want, got []string
	for _, line := range strings.Split(string(out), "\n") {
		if m := printed.FindStringSubmatch(line); m != nil {
			flags, known := kinds[m[3]]
			if !known {
				t.Skipf("a kind of library that this test does not know: %s", line)
			}
			want = append(want, fmt.Sprintf("%s %#x %s %s", m[1], types[m[2]]|flags, m[4], m[5]))
		} else if strings.HasPrefix(line, "\t") {
			t.Errorf("not understood: %s", line)
		}
	}
	for _, e := range c.Entries {
		got = append(got, fmt.Sprintf("%s %#x %s %s", e.Soname, e.Flags, e.HWCapName, e.Path))
	}
	if len(want) == 0 {
		t.Fatalf("ldconfig printed nothing of %s", file)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s differs from what ldconfig prints (-want +got):\n%s", file, diff)
	}
	return c
}

func TestAgainstTheHostsLdconfig(t *testing.T) {
	if _, err := os.Stat(Path); err != nil {
		t.Skip(err)
	}
	c := sameAsPrinted(t, Path)
	t.Logf("%d entries", len(c.Entries))
	// The search goes by the order in which ldconfig wrote them.
	for _, e := range c.Entries {
		if got, ok := c.Resolve(e.Soname, x86_64, Processor{}); e.Fits(x86_64) && e.HWCap == 0 && (!ok || got.Soname != e.Soname) {
			t.Errorf("%s is not found: %+v", e.Soname, got)
		}
	}
}

// The layouts that this machine's ldconfig writes, over a tree with glibc-hwcaps directories.
func TestAgainstLdconfigsOwnLayouts(t *testing.T) {
	lib, err := filepath.EvalSymlinks("/lib64/ld-linux-x86-64.so.2")
	if err != nil {
		t.Skip("no x86-64 glibc here")
	}
	b, err := os.ReadFile(lib)
	if err != nil {
		t.Skip(err)
	}
	root := t.TempDir()
	for name, data := range map[string][]byte{
		"lib/ld-linux-x86-64.so.2":                            b,
		"opt/lib/ld-linux-x86-64.so.2":                        b,
		"opt/lib/glibc-hwcaps/x86-64-v2/ld-linux-x86-64.so.2": b,
		"opt/lib/glibc-hwcaps/x86-64-v3/ld-linux-x86-64.so.2": b,
		"etc/ld.so.conf":                                      []byte("/opt/lib\n"),
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755),
			os.WriteFile(filepath.Join(root, name), data, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	for _, format := range []Format{New, Compat, Old} {
		out, err := exec.Command("/sbin/ldconfig", "-X", "-i", "-r", root, "-C", "/cache-"+string(format),
			"-f", "/etc/ld.so.conf", "-c", string(format)).CombinedOutput()
		if err != nil {
			t.Skipf("ldconfig -r: %v (%s)", err, out)
		}
		c := sameAsPrinted(t, filepath.Join(root, "cache-"+string(format)))
		if n := len(named(c, "ld-linux-x86-64.so.2")); c.old != (format == Old) || format == New && n != 4 || n < 2 {
			t.Errorf("%s: read as old: %v, %d entries", format, c.old, n)
		}
		e, ok := c.Resolve("ld-linux-x86-64.so.2", x86_64, Processor{Subdirs: []string{"x86-64-v2"}, ISA: 3})
		if want := "/opt/lib/glibc-hwcaps/x86-64-v2/ld-linux-x86-64.so.2"; format == New && e.Path != want || !ok {
			t.Errorf("%s: %+v", format, e)
		}
	}
}

// A 32-bit x86 library that needs no C library is entered as "ELF", of no kind.
func TestAgainstLdconfigWithI386(t *testing.T) {
	cc, err := exec.LookPath("i686-linux-gnu-gcc")
	if err != nil {
		t.Skip("no compiler for i386: ", err)
	}
	root := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(root, "opt"), 0o755), os.Mkdir(filepath.Join(root, "etc"), 0o755),
		os.WriteFile(filepath.Join(root, "etc/ld.so.conf"), []byte("/opt\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	for name, flag := range map[string]string{"liba.so.1": "-nostdlib", "libb.so.1": "-Wl,--no-as-needed"} {
		out, err := exec.Command(cc, "-shared", flag, "-Wl,-soname,"+name, "-o", filepath.Join(root, "opt", name), "-xc", os.DevNull).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	out, err := exec.Command("/sbin/ldconfig", "-X", "-i", "-r", root, "-C", "/cache", "-f", "/etc/ld.so.conf").CombinedOutput()
	if err != nil {
		t.Skipf("ldconfig -r: %v (%s)", err, out)
	}
	i386 := ABI{Machine: elf.EM_386, Class: elf.ELFCLASS32}
	c := sameAsPrinted(t, filepath.Join(root, "cache"))
	for _, name := range []string{"liba.so.1", "libb.so.1"} {
		for _, e := range named(c, name) {
			if !e.Fits(i386) || e.Fits(x86_64) {
				t.Errorf("%+v: for i386 %v, for x86-64 %v", e, e.Fits(i386), e.Fits(x86_64))
			}
		}
		if e, ok := c.Resolve(name, i386, Processor{}); !ok || e.Path != "/opt/"+name {
			t.Errorf("%s: %+v, %v", name, e, ok)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, order := range []appendOrder{binary.LittleEndian, binary.BigEndian} {
		f.Add(cacheFile{order, Old, 0, false, sample}.bytes())
		f.Add(cacheFile{order, Compat, 8, true, sample}.bytes())
		f.Add(cacheFile{order, Compat, 4, false, sample[:11]}.bytes())
		f.Add(cacheFile{order, New, 0, true, sample}.bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := Parse(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			var fe *FormatError
			if err != errNotCache && (!errors.As(err, &fe) || fe.Off < 0) {
				t.Errorf("%v", err)
			}
			return
		}
		if len(c.Entries)*entryOld > len(b) {
			t.Errorf("%d entries from %d bytes", len(c.Entries), len(b))
		}
		for _, e := range c.Entries {
			if got, ok := c.Resolve(e.Soname, x86_64, Processor{Subdirs: []string{"x86-64-v3", "x86-64-v2"}, ISA: 15, Legacy: true, HWCaps: 6}); ok && !got.Fits(x86_64) {
				t.Errorf("%+v for x86-64", got)
			}
		}
	})
}

// The old layout is searched to its end for the loader's own flags, the new one is in order.
func TestOldLayoutIsSearchedToItsEnd(t *testing.T) {
	entries := []Entry{{Soname: "libq.so", Path: "/a/libq.so", Flags: flagELF}, {Soname: "libq.so", Path: "/b/libq.so", Flags: flagLibc6}}
	for format, want := range map[Format]string{Old: "/b/libq.so", New: "/a/libq.so"} {
		c := parse(t, cacheFile{binary.LittleEndian, format, 0, true, entries}.bytes())
		if e, ok := c.Resolve("libq.so", i386, Processor{}); !ok || e.Path != want {
			t.Errorf("%s: %q, want %q", format, e.Path, want)
		}
	}
}
