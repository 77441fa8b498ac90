package judge

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const program = `
#include <stdio.h>
#include <pthread.h>
__thread int local = 3;
int exported = 5;
static int *pointer = &exported;
const char *text(void) { return "a string of the program"; }
void *start(void *p) { return p; }
int main(void) { pthread_t t; pthread_create(&t, 0, start, 0); pthread_join(t, 0); return printf("%s %d %d\n", text(), *pointer, local) < 0; }
`

// build links the program, or a library, in one way.
func build(t *testing.T, flags ...string) []byte {
	t.Helper()
	compiler := "gcc"
	if slices.Contains(flags, "-m32") { // gcc itself has the headers of one word size
		compiler = "i686-linux-gnu-gcc"
	}
	if _, err := exec.LookPath(compiler); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.c"), []byte(program), 0o666); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	args := append([]string{"-O1", "-g", "-o", out, filepath.Join(dir, "main.c"), "-Wl,--enable-new-dtags,-rpath,/nix/store/0-one/lib:/nix/store/0-two/lib", "-Wl,--hash-style=both"}, flags...)
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		t.Skipf("%s %v: %s", compiler, args, out)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func read(t *testing.T, b []byte) *File {
	t.Helper()
	f, err := Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// wrong returns the findings that are no remarks.
func wrong(before, after *File, want Expect) []string {
	var out []string
	for _, f := range Compare(before, after, want) {
		if !f.Remark {
			out = append(out, f.String())
		}
	}
	return out
}

var ways = map[string][]string{
	"program":            nil,
	"no-pie":             {"-no-pie"},
	"library":            {"-shared", "-fPIC", "-Wl,-soname,liba.so.1"},
	"relr":               {"-Wl,-z,pack-relative-relocs"},
	"32 bits, i386":      {"-m32"},
	"lld":                {"-fuse-ld=lld"},
	"no section headers": {"-Wl,-z,nosectionheader"},
}

func TestSame(t *testing.T) {
	for name, flags := range ways {
		t.Run(name, func(t *testing.T) {
			b := build(t, flags...)
			if got := Compare(read(t, b), read(t, slices.Clone(b)), Expect{}); len(got) > 0 {
				t.Errorf("a file compared with itself: %v", got)
			}
			// The same file again, with an edit that was never made.
			if got := wrong(read(t, b), read(t, b), Expect{RunPath: &RunPath{"RUNPATH", "/other"}}); len(got) == 0 {
				t.Error("a run path that was not set is not missed")
			}
		})
	}
}

// TestEachByte changes bytes of the file one at a time: whatever a segment or a
// section holds, the change is found.
func TestEachByte(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for name, flags := range ways {
		t.Run(name, func(t *testing.T) {
			b := build(t, flags...)
			before := read(t, b)
			var owned []span
			for _, p := range before.segs {
				if p.kind == ptLoad {
					owned = append(owned, of(p.off, p.filesz))
				}
			}
			for _, s := range before.sects {
				if s.kind != shtNobits {
					owned = append(owned, of(s.off, s.size))
				}
			}
			owned = append(owned, before.phdrTable(), of(before.head.shoff, before.head.shnum*uint64(before.head.shentsize)))
			tried := 0
			for at := 0; at < len(b); at += 7 {
				if !slices.ContainsFunc(owned, func(s span) bool { return s.has(uint64(at)) }) {
					continue
				}
				changed := slices.Clone(b)
				changed[at] ^= 0x41
				tried++
				after, err := Read(changed)
				if err != nil {
					continue // found by not being readable
				}
				if got := wrong(before, after, Expect{}); len(got) == 0 && !spare(before, uint64(at)) {
					t.Errorf("a change at %#x (%s) is not found", at, before.ownerOf(uint64(at)))
				}
			}
			if tried < 500 {
				t.Errorf("only %d bytes tried", tried)
			}
		})
	}
}

// spare reports whether nobody reads a byte of the file: what comes after the tag of .dynamic's DT_NULL, and where in
// the file a section without bytes would be.
func spare(f *File, at uint64) bool {
	for _, p := range f.ofKind(ptDynamic) {
		if at >= p.off+uint64(len(f.dyn))*2*f.word()+f.word() && at < p.off+p.filesz {
			return true
		}
	}
	for i, s := range f.sects {
		header := f.head.shoff + uint64(i)*uint64(f.head.shentsize)
		if field := of(header+8+2*f.word(), f.word()); s.kind == shtNobits && field.has(at) {
			return true
		}
	}
	return false
}

func (f *File) ownerOf(at uint64) string {
	for _, s := range f.sects {
		if s.kind != shtNobits && of(s.off, s.size).has(at) {
			return s.name
		}
	}
	return "no section"
}

// TestPlanted makes the mistakes that an editor could make.
func TestPlanted(t *testing.T) {
	b := build(t, "-shared", "-fPIC", "-Wl,-soname,liba.so.1")
	f := read(t, b)
	same := Expect{RunPath: &RunPath{"RUNPATH", "/nix/store/0-one/lib:/nix/store/0-two/lib"}}
	if got := Compare(f, f, same); len(got) > 0 {
		t.Fatalf("the run path as it is: %v", got)
	}
	at, _ := f.strings()
	table, _ := f.memory(at, 1)
	dynstr := uint64(len(b) - len(f.data[offsetOf(f, table):]))
	runPath := f.all(dtRunpath)[0]
	dyn := f.ofKind(ptDynamic)[0]
	load := func(b []byte, i, field int) []byte { // of the ith PT_LOAD, a 64-bit field by number
		n := 0
		for k, p := range f.segs {
			if p.kind == ptLoad {
				if n == i {
					return b[int(f.head.phoff)+k*56+field*8:]
				}
				n++
			}
		}
		t.Fatal("no such segment")
		return nil
	}
	entryAt := func(b []byte, tag uint64) []byte {
		for i, e := range f.dyn {
			if e.tag == tag {
				return b[dyn.off+uint64(i)*16:]
			}
		}
		t.Fatalf("no entry %#x", tag)
		return nil
	}
	for _, test := range []struct {
		name, want string
		do         func(b []byte) []byte
	}{
		{"a string beside the run path is lost", "strings", func(b []byte) []byte { b[dynstr+1] = 'Q'; return b }},
		{"the run path is left half scrubbed", "run path", func(b []byte) []byte { b[dynstr+runPath+3] = 0; return b }},
		{"flags of a segment", "memory", func(b []byte) []byte { load(b, 1, 0)[4] = flagR | flagW | flagX; return b }},
		{"a segment shrinks", "PT_LOAD", func(b []byte) []byte { load(b, 1, 4)[0]--; return b }},
		{"a segment's offset", "memory", func(b []byte) []byte { load(b, 1, 1)[1] += 0x10; return b }},
		{"DT_DEBUG or another entry is lost", "dynamic", func(b []byte) []byte {
			binary.LittleEndian.PutUint64(entryAt(b, dtPltRelSz), 0x6ffffef0)
			return b
		}},
		{"the hash table's first bucket", "memory", func(b []byte) []byte {
			g, _ := f.gnuHash()
			b[g.bucketsAt]++ // a library's first segment begins at address 0
			return b
		}},
		{"an entry too many", "dynamic", func(b []byte) []byte {
			binary.LittleEndian.PutUint64(b[dyn.off+uint64(len(f.dyn))*16:], 0x6ffffef0)
			return b
		}},
		{"no terminator", "dynamic", func(b []byte) []byte {
			for at := dyn.off + uint64(len(f.dyn))*16; at < dyn.off+dyn.filesz; at += 16 {
				binary.LittleEndian.PutUint64(b[at:], 0x6ffffef0)
			}
			return b
		}},
		{"appended data is cut off", "loose bytes", func(b []byte) []byte { return b[:len(b)-4] }},
		{"appended data moves", "loose bytes", func(b []byte) []byte { return append(slices.Insert(b, len(b)-8, make([]byte, 64)...), 0) }},
		{"appended data is not at the end", "appended data", func(b []byte) []byte { return append(b, "more"...) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			original := append(slices.Clone(b), "payload!"...)
			after, err := Read(test.do(slices.Clone(original)))
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(wrong(read(t, original), after, same), "\n")
			if !strings.Contains(got, test.want+": ") {
				t.Errorf("want a finding of kind %q, got %q", test.want, got)
			}
		})
	}

	t.Run("a removed entry is still in the file", func(t *testing.T) {
		changed := slices.Clone(b)
		changed[dynstr+runPath+uint64(len("/nix/store/0-one/lib"))] = 0
		got := strings.Join(wrong(f, read(t, changed), Expect{RunPath: &RunPath{"RUNPATH", "/nix/store/0-one/lib"}}), "\n")
		if !strings.Contains(got, `leftover: "/nix/store/0-two/lib"`) {
			t.Errorf("got %q", got)
		}
		clear(changed[dynstr+runPath+uint64(len("/nix/store/0-one/lib")):][:len("/nix/store/0-two/lib")])
		if got := wrong(f, read(t, changed), Expect{RunPath: &RunPath{"RUNPATH", "/nix/store/0-one/lib"}}); len(got) > 0 {
			t.Errorf("a list that was cut short, and the rest zeroed: %q", got)
		}
	})
}

// offsetOf is where in the file a slice of its memory begins.
func offsetOf(f *File, part []byte) int {
	for i := range f.data {
		if &f.data[i] == &part[0] {
			return i
		}
	}
	panic("not a part of the file")
}

// TestDeadBlockTooLong is what a wrong size of the old .dynamic does: bytes of the section after it are lost.
func TestDeadBlockTooLong(t *testing.T) {
	b := build(t)
	f := read(t, b)
	d := f.ofKind(ptDynamic)[0]
	copy(b[d.off+d.filesz:], "what stands here") // .got, whose content the linker leaves zero
	// A copy of .dynamic in a new segment at the end, in place of PT_GNU_STACK's header; the old one is zeroed.
	moved := func(more uint64) []byte {
		out := append(slices.Clone(b), make([]byte, -len(b)&0xfff)...)
		at := uint64(len(out))
		addr := uint64(0x400000)
		out = append(out, b[d.off:d.off+d.filesz]...)
		clear(out[d.off : d.off+d.filesz+more])
		for i, p := range f.segs {
			h := out[f.head.phoff+uint64(i)*56:]
			put := func(field int, v uint64) { binary.LittleEndian.PutUint64(h[field*8:], v) }
			switch p.kind {
			case ptDynamic:
				put(1, at)
				put(2, addr)
				put(3, addr)
			case ptProperty:
				binary.LittleEndian.PutUint32(h, ptLoad)
				binary.LittleEndian.PutUint32(h[4:], flagR|flagW)
				put(1, at)
				put(2, addr)
				put(3, addr)
				put(4, d.filesz)
				put(5, d.filesz)
				put(6, 4096)
			}
		}
		for i, s := range f.sects {
			if s.kind == shtDynamic {
				h := out[f.head.shoff+uint64(i)*64:]
				binary.LittleEndian.PutUint64(h[16:], addr)
				binary.LittleEndian.PutUint64(h[24:], at)
			}
		}
		return out
	}
	kinds := func(more uint64) string {
		return strings.Join(wrong(f, read(t, moved(more)), Expect{}), "\n")
	}
	exact, long := kinds(0), kinds(16)
	if strings.Contains(exact, "memory: ") {
		t.Errorf("the old .dynamic is zeroed, no more: %s", exact)
	}
	if !strings.Contains(long, "memory: ") {
		t.Errorf("16 bytes more: %s", long)
	}
}

// TestSymbolTableInASegment: the last segment of the file maps .symtab, as eu-strip leaves it. The value of a symbol whose
// section moves may change in there, by as much, and nothing else.
func TestSymbolTableInASegment(t *testing.T) {
	for name, flags := range map[string][]string{"64 bits": nil, "32 bits": {"-m32"}} {
		t.Run(name, func(t *testing.T) {
			b := build(t, flags...)
			plain := read(t, b)
			put := func(b []byte, at uint64, v uint64) {
				if plain.wide {
					binary.LittleEndian.PutUint64(b[at:], v)
				} else {
					binary.LittleEndian.PutUint32(b[at:], uint32(v))
				}
			}
			var table section
			text := 0
			for i, s := range plain.sects {
				switch {
				case s.kind == shtSymtab:
					table = s
				case s.name == ".text":
					text = i
				}
			}
			last := 0
			for i, p := range plain.segs {
				if p.kind == ptLoad {
					last = i
				}
			}
			size := table.off + table.size - plain.segs[last].off
			header := plain.head.phoff + uint64(last)*uint64(plain.head.phentsize)
			filesz, memsz := header+32, header+40
			if !plain.wide {
				filesz, memsz = header+16, header+20
			}
			put(b, filesz, size)
			put(b, memsz, size)
			before := read(t, b)
			content, _ := before.content(table)
			number := slices.IndexFunc(before.symbols(content, nil), func(s symbol) bool { return int(s.shndx) == text })
			if number < 0 {
				t.Fatal("no symbol in .text")
			}
			at := table.off + uint64(number)*before.symSize()
			value := before.symbol(content[uint64(number)*before.symSize():]).value
			header = before.head.shoff + uint64(text)*uint64(before.head.shentsize)
			for _, test := range []struct {
				name    string
				change  func(b []byte)
				noticed bool
			}{
				{"nothing", func([]byte) {}, false},
				{"as its section", func(b []byte) { put(b, at+before.word(), value+0x100) }, false},
				{"by more than its section", func(b []byte) { put(b, at+before.word(), value+0x101) }, true},
				{"its size as well", func(b []byte) { put(b, at+before.word(), value+0x100); b[at+2*before.word()] ^= 0x41 }, true},
				{"its binding", func(b []byte) { b[at+pick(before.wide, 4, 12)] ^= 0x10 }, true},
				{"another symbol", func(b []byte) { put(b, at-before.symSize()+before.word(), value+0x100) }, true},
				{"what precedes the table", func(b []byte) { b[table.off-1] ^= 0x41 }, true},
			} {
				after := slices.Clone(b)
				put(after, header+8+before.word(), before.sects[text].addr+0x100)
				test.change(after)
				found := slices.ContainsFunc(wrong(before, read(t, after), Expect{}), func(s string) bool { return strings.HasPrefix(s, "memory: ") })
				if found != test.noticed {
					t.Errorf("%s: noticed in memory: %v\n%s", test.name, found, strings.Join(wrong(before, read(t, after), Expect{}), "\n"))
				}
			}
		})
	}
}

func pick(first bool, a, b uint64) uint64 {
	if first {
		return a
	}
	return b
}
