package thin

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/gpucode"
)

// codec encodes headers.
var codec = &elfimage.Image{Class: elf.ELFCLASS64, Order: binary.LittleEndian, Machine: elf.EM_X86_64}

// library makes a library: headers with room behind them, code, GPU code and data behind it in one segment, data
// with .bss in another, and symbols, of which one is in each container.
func library(code []byte) []byte {
	const text, fatbin = 0x2000, 0x3008
	b := make([]byte, fatbin)
	copy(b[text:], bytes.Repeat([]byte{0xc3}, 64))
	b = append(b, code...)
	rodata := uint64(len(b))
	b = append(b, bytes.Repeat([]byte{0x5a}, 700)...)
	rx := elfimage.Prog{Type: elf.PT_LOAD, Flags: elf.PF_R | elf.PF_X, Filesz: uint64(len(b)), Memsz: uint64(len(b)), Align: 2 << 20}
	data := uint64(len(b))
	b = append(b, bytes.Repeat([]byte{0xd7}, 900)...)
	rw := elfimage.Prog{Type: elf.PT_LOAD, Flags: elf.PF_R | elf.PF_W, Off: data, Vaddr: data + 4<<20, Paddr: data + 4<<20, Filesz: 900, Memsz: 70000, Align: 2 << 20}
	relro := elfimage.Prog{Type: elf.PT_GNU_RELRO, Flags: elf.PF_R, Off: data, Vaddr: rw.Vaddr, Paddr: rw.Vaddr, Filesz: 100, Memsz: 100, Align: 1}
	b = append(b, make([]byte, -len(b)&7)...)
	symtab := uint64(len(b))
	b = append(b, make([]byte, 24)...)
	for _, c := range listRaw(code) {
		symbol := make([]byte, 24)
		binary.LittleEndian.PutUint16(symbol[6:], 2)
		binary.LittleEndian.PutUint64(symbol[8:], fatbin+c.Off)
		b = append(b, symbol...)
	}
	symbols := uint64(len(b)) - symtab
	names := "\x00.text\x00.nv_fatbin\x00.rodata\x00.data\x00.bss\x00.symtab\x00.shstrtab\x00.comment\x00"
	at := func(name string) uint32 { return uint32(bytes.Index([]byte(names), []byte("\x00"+name+"\x00")) + 1) }
	strings := uint64(len(b))
	b = append(b, names...)
	comment := uint64(len(b))
	b = append(b, "made by hand"...)
	b = append(b, make([]byte, -len(b)&7)...)
	const alloc = elf.SHF_ALLOC
	sections := []elfimage.Section{{},
		{NameOff: at(".text"), Type: elf.SHT_PROGBITS, Flags: alloc | elf.SHF_EXECINSTR, Addr: text, Off: text, Size: 64, Addralign: 1},
		{NameOff: at(".nv_fatbin"), Type: elf.SHT_PROGBITS, Flags: alloc, Addr: fatbin, Off: fatbin, Size: uint64(len(code)), Addralign: 8},
		{NameOff: at(".rodata"), Type: elf.SHT_PROGBITS, Flags: alloc, Addr: rodata, Off: rodata, Size: 700, Addralign: 1},
		{NameOff: at(".data"), Type: elf.SHT_PROGBITS, Flags: alloc | elf.SHF_WRITE, Addr: rw.Vaddr, Off: data, Size: 900, Addralign: 1},
		{NameOff: at(".bss"), Type: elf.SHT_NOBITS, Flags: alloc | elf.SHF_WRITE, Addr: rw.Vaddr + 900, Off: data + 900, Size: 69100, Addralign: 1},
		{NameOff: at(".symtab"), Type: elf.SHT_SYMTAB, Off: symtab, Size: symbols, Link: 7, Info: uint32(symbols / 24), Addralign: 8, Entsize: 24},
		{NameOff: at(".shstrtab"), Type: elf.SHT_STRTAB, Off: strings, Size: uint64(len(names)), Addralign: 1},
		{NameOff: at(".comment"), Type: elf.SHT_PROGBITS, Off: comment, Size: 12, Addralign: 1},
	}
	le, h := binary.LittleEndian, b[:64]
	copy(h, "\x7fELF\x02\x01\x01")
	le.PutUint16(h[16:], uint16(elf.ET_DYN))
	le.PutUint16(h[18:], uint16(elf.EM_X86_64))
	le.PutUint32(h[20:], 1)
	le.PutUint64(h[32:], 64)
	le.PutUint64(h[40:], uint64(len(b)))
	for i, v := range []uint16{64, 56, 3, 64, uint16(len(sections)), 7} {
		le.PutUint16(h[52+2*i:], v)
	}
	for i, p := range []elfimage.Prog{rx, rw, relro} {
		codec.EncodeProg(b[64+56*i:], p)
	}
	for _, s := range sections {
		b = append(b, make([]byte, 64)...)
		codec.EncodeSection(b[len(b)-64:], s)
	}
	return b
}

func listRaw(code []byte) []gpucode.Container {
	if len(code) == 0 {
		return nil
	}
	return read(code).Containers
}

// growing is a copy in memory that begins empty.
type growing struct{ b []byte }

func (g *growing) grow(n int64) { g.b = append(g.b, make([]byte, max(0, int(n)-len(g.b)))...) }
func (g *growing) WriteAt(p []byte, off int64) (int, error) {
	g.grow(off + int64(len(p)))
	return copy(g.b[off:], p), nil
}
func (g *growing) Zero(off, n int64) error {
	if off < int64(len(g.b)) {
		clear(g.b[off:min(off+n, int64(len(g.b)))])
	}
	return nil
}

// cutOf plans the cut of b, and makes it; nil where there is none.
func cutOf(t interface{ Fatal(...any) }, b []byte, o Options) (*Cut, []byte) {
	code, err := listed(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(bytes.NewReader(b), code, o)
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.cut(bytes.NewReader(b), int64(len(b)), code)
	if err != nil || c == nil {
		t.Fatal(fmt.Sprint("no cut: ", err))
	}
	var out growing
	if err := c.Apply(&out); err != nil {
		t.Fatal(err)
	}
	if int64(len(out.b)) != c.Size() {
		t.Fatal("planned ", c.Size(), " bytes, made ", len(out.b))
	}
	return c, out.b
}

// inMemory maps b as a loader does, from address 0 on, and says of each page whether anything is there.
func inMemory(t interface{ Fatal(...any) }, b []byte) (memory []byte, mapped []bool) {
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	last := uint64(0)
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD {
			continue
		}
		if p.Vaddr < last || (p.Vaddr-p.Off)%p.Align != 0 {
			t.Fatal("a segment that no loader takes")
		}
		last = (p.Vaddr + p.Memsz + 4095) &^ 4095
		memory = append(memory, make([]byte, int(last)-len(memory))...)
		for page := p.Vaddr / 4096; page < last/4096; page++ {
			mapped = append(mapped, make([]bool, max(0, int(page)+1-len(mapped)))...)
			mapped[page] = true
		}
		copy(memory[p.Vaddr:], b[p.Off:p.Off+p.Filesz])
	}
	clear(memory[:64+56*72]) // the headers
	return memory, mapped
}

// Whatever is cut, memory holds what it holds where the file is thinned in place, but for pages of zeros that are gone; a
// second time there is nothing to cut; and whoever reads the file by its sections finds the same code.
func TestCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		any := rapid.Custom(func(t *rapid.T) piece {
			return piece{rapid.SampledFrom([]gpucode.Kind{gpucode.PTX, gpucode.Cubin, gpucode.Cubin}).Draw(t, "kind"),
				rapid.SampledFrom([]uint32{75, 80, 90, 100}).Draw(t, "arch"), 0x11, rapid.SampledFrom([]int{8, 3000, 4096, 20000, 41000}).Draw(t, "size"), ""}
		})
		pieces := rapid.SliceOfN(rapid.SliceOfN(any, 0, 4), 1, 20).Draw(t, "containers")
		pieces[0] = []piece{cubin(90), {gpucode.Cubin, 75, 0x11, 90000, ""}}
		b := library(file(pieces...))
		o := Options{Targets: targets(t, rapid.SampledFrom([]string{"9.0", "8.6,9.0", "8.0+PTX,9.0"}).Draw(t, "list"))}
		c, out := cutOf(t, b, o)
		if err := c.Check(bytes.NewReader(out), int64(len(out))); err != nil {
			t.Fatal(err)
		}
		place := memory(bytes.Clone(b))
		if err := c.plan.Apply(bytes.NewReader(b), place); err != nil {
			t.Fatal(err)
		}
		was, _ := inMemory(t, place)
		is, mapped := inMemory(t, out)
		if len(is) != len(was) || len(out) > len(b)-90000+40000 {
			t.Fatalf("memory of %d bytes, before %d; the file has %d of %d", len(is), len(was), len(out), len(b))
		}
		for page := range mapped {
			if a, b := was[page*4096:][:4096], is[page*4096:][:4096]; !bytes.Equal(a, b) {
				t.Fatalf("page %#x differs (mapped: %v)", page*4096, mapped[page])
			}
		}
		for _, used := range read2(t, place).Containers {
			for _, h := range c.holes {
				if end := used.Off + used.Size; end <= h.off && h.off-end < 256 {
					t.Fatalf("%d bytes behind the container at %#x are cut", h.off-end, used.Off)
				}
			}
		}
		code, err := listed(bytes.NewReader(out), int64(len(out)))
		if err != nil || names(code) != names(read2(t, place)) || len(code.Marks) != 1 {
			t.Fatalf("%s\n%s\n%v", names(code), names(read2(t, place)), err)
		}
		f, _ := elf.NewFile(bytes.NewReader(out))
		symbols, err := f.Symbols()
		for _, s := range symbols {
			if in := f.Sections[s.Section]; err != nil || in.Name != ".nv_fatbin" || s.Value < in.Addr || s.Value >= in.Addr+in.Size {
				t.Fatalf("symbol %+v is not in %+v", s, in)
			}
		}
		p, err := New(bytes.NewReader(out), code, o)
		if err != nil || !p.empty() {
			t.Fatalf("again: %+v, %v", p, err)
		}
		if again, err := p.cut(bytes.NewReader(out), int64(len(out)), code); again != nil || err != nil {
			t.Fatalf("again: %d bytes, then %d, %v", len(out), again.Size(), err)
		}
	})
}

func read2(t interface{ Fatal(...any) }, b []byte) *gpucode.File {
	f, err := listed(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A file that was thinned in place is cut as one that was not.
func TestCutOfThinned(t *testing.T) {
	many := "9.0" // so that the mark has more bytes than the margin
	for n := range 60 {
		many += fmt.Sprintf(",%d-real", 200+n)
	}
	for size := 4000; size < 4000+4096; size += 512 { // wherever in its page the mark ends
		b := library(file([]piece{{gpucode.Cubin, 90, 0x11, size, ""}, {gpucode.Cubin, 75, 0x11, 90000, ""}}, []piece{{gpucode.Cubin, 80, 0x11, 70000, ""}, cubin(90)}))
		for _, list := range []string{"9.0", many} {
			o := Options{Targets: targets(t, list)}
			c, want := cutOf(t, b, o)
			place := memory(bytes.Clone(b))
			if err := c.plan.Apply(bytes.NewReader(b), place); err != nil {
				t.Fatal(err)
			}
			if _, got := cutOf(t, place, o); !bytes.Equal(got, want) || len(read2(t, want).Marks) != 1 {
				t.Error("another file, or no mark")
			}
		}
	}
}

// So is one that was thinned for more GPUs: the mark that it had then is gone.
func TestCutOfThinnedForMore(t *testing.T) {
	b := library(file([]piece{cubin(90), {gpucode.Cubin, 80, 0x11, 90000, ""}, {gpucode.Cubin, 75, 0x11, 90000, ""}}, []piece{cubin(90)}))
	_, want := cutOf(t, b, Options{Targets: targets(t, "9.0")})
	c, _ := cutOf(t, b, Options{Targets: targets(t, "8.0,9.0")})
	place := memory(bytes.Clone(b))
	if err := c.plan.Apply(bytes.NewReader(b), place); err != nil {
		t.Fatal(err)
	}
	if _, got := cutOf(t, place, Options{Targets: targets(t, "9.0")}); !bytes.Equal(got, want) {
		t.Errorf("%d bytes, not %d", len(got), len(want))
	}
}

// patchelf lets symbols of all sections of a name be of the first (rewriteHeaders). They stay so.
func TestCutWithSymbolsElsewhere(t *testing.T) {
	pieces := make([][]piece, 6)
	for i := range pieces {
		pieces[i] = []piece{cubin(90), {gpucode.Cubin, 80, 0x11, 90000, ""}, {gpucode.Cubin, 75, 0x11, 90000, ""}}[:3-i%2]
	}
	_, b := cutOf(t, library(file(pieces...)), Options{Targets: targets(t, "8.0,9.0")})
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for at := f.Section(".symtab").Offset + 24; at < f.Section(".symtab").Offset+f.Section(".symtab").Size; at += 24 {
		binary.LittleEndian.PutUint16(b[at+6:], 2)
	}
	c, out := cutOf(t, b, Options{Targets: targets(t, "9.0")})
	if err := c.Check(bytes.NewReader(out), int64(len(out))); err != nil {
		t.Error(err)
	}
}

// What an earlier cut has added comes after all other sections, wherever it is in memory: of two sections of GPU code, the
// second is cut before the pieces of the first are. Here a piece and the one behind it change places among the headers.
func TestCutOfSectionsOutOfOrder(t *testing.T) {
	pieces := make([][]piece, 6)
	for i := range pieces {
		pieces[i] = []piece{cubin(90), {gpucode.Cubin, 80, 0x11, 90000, ""}, {gpucode.Cubin, 75, 0x11, 90000, ""}}
	}
	_, b := cutOf(t, library(file(pieces...)), Options{Targets: targets(t, "8.0,9.0")})
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil || len(f.Sections) < 12 {
		t.Fatal(len(f.Sections), " sections ", err)
	}
	shoff := binary.LittleEndian.Uint64(b[40:])
	x, y := b[shoff+9*64:][:64], b[shoff+11*64:][:64]
	was := bytes.Clone(x)
	copy(x, y)
	copy(y, was)
	for at := f.Section(".symtab").Offset + 24; at < f.Section(".symtab").Offset+f.Section(".symtab").Size; at += 24 {
		switch index := b[at+6:]; index[0] {
		case 9:
			index[0] = 11
		case 11:
			index[0] = 9
		}
	}
	c, out := cutOf(t, b, Options{Targets: targets(t, "9.0")})
	if err := c.Check(bytes.NewReader(out), int64(len(out))); err != nil {
		t.Error(err)
	}
	if after := read2(t, out); len(after.Containers) != len(pieces) || len(out) >= len(b) {
		t.Errorf("%d containers, %d bytes of %d", len(after.Containers), len(out), len(b))
	}
}

// Headers may be anywhere among others: unused ones in front, a section behind the table.
func TestCutWithOtherHeaders(t *testing.T) {
	le := binary.LittleEndian
	for name, change := range map[string]func(b []byte) []byte{
		"unused headers": func(b []byte) []byte {
			copy(b[64+2*56:], bytes.Clone(b[64:64+3*56]))
			clear(b[64 : 64+2*56])
			b[56] = 5
			return b
		},
		// patchelf lets a library be a byte longer than what it describes (rewriteSectionsLibrary, binutilsQuirkPadding).
		"a zero at the end": func(b []byte) []byte { return append(b, 0) },
		"a section behind the table": func(b []byte) []byte {
			le.PutUint64(b[le.Uint64(b[40:])+8*64+24:], uint64(len(b)))
			return append(b, "made by hand"...)
		},
	} {
		b := change(library(file([]piece{cubin(90), {gpucode.Cubin, 75, 0x11, 90000, ""}}, []piece{cubin(90)})))
		c, out := cutOf(t, b, Options{Targets: targets(t, "9.0")})
		if err := c.Check(bytes.NewReader(out), int64(len(out))); err != nil || le.Uint64(out[40:])%8 != 0 {
			t.Errorf("%s: %v, section headers at %#x", name, err, le.Uint64(out[40:]))
		}
	}
}

// A section that ends with a page keeps its last one: each hole has a piece of it behind it.
func TestCutAtTheEndOfASection(t *testing.T) {
	for size := 90000; size < 90000+4096; size += 8 {
		code := file([]piece{cubin(90), {gpucode.Cubin, 75, 0x11, size, ""}})
		if (0x3008+len(code))%4096 > 0 {
			continue
		}
		b := library(code)
		if c, out := cutOf(t, b, Options{Targets: targets(t, "9.0")}); c.Check(bytes.NewReader(out), int64(len(out))) != nil || len(out) > 30000 {
			t.Errorf("%d bytes, then %d: %v", len(b), len(out), c.Check(bytes.NewReader(out), int64(len(out))))
		}
		return
	}
	t.Error("no such file")
}

// What is not cut, and why.
func TestNotCut(t *testing.T) {
	good := library(file([]piece{cubin(90), {gpucode.Cubin, 75, 0x11, 90000, ""}}, []piece{cubin(90)}))
	le := binary.LittleEndian
	shoff := le.Uint64(good[40:])
	made, _ := cutOf(t, good, Options{Targets: targets(t, "9.0")})
	end := made.holes[0].end()
	for name, c := range map[string]struct {
		broken func(b []byte) []byte
		err    bool // else there is nothing to cut
	}{
		"appended data": {func(b []byte) []byte { return append(b, "PAYLOAD"...) }, true},
		"a note in it": {func(b []byte) []byte {
			le.PutUint32(b[64+2*56:], uint32(elf.PT_NOTE))
			le.PutUint64(b[64+2*56+8:], 0x8000)
			return b
		}, false},
		"another section in it":      {func(b []byte) []byte { le.PutUint64(b[shoff+8*64+24:], 0x8000); return b }, false},
		"no room behind the headers": {func(b []byte) []byte { b[64+3*56] = 1; return b }, true},
		"headers elsewhere":          {func(b []byte) []byte { copy(b[0x1000:], b[64:64+3*56]); le.PutUint64(b[32:], 0x1000); return b }, true},
		"unused headers elsewhere, of BOLT": {func(b []byte) []byte {
			copy(b[0x1000:], b[64:64+3*56])
			le.PutUint64(b[32:], 0x1000)
			b[56] = 30
			return b
		}, true},
		"another section around it": {func(b []byte) []byte {
			le.PutUint64(b[shoff+8*64+24:], 0x3008)
			le.PutUint64(b[shoff+8*64+32:], le.Uint64(b[shoff+2*64+32:]))
			return b
		}, false},
		"a segment that ends where it ends":   {func(b []byte) []byte { le.PutUint64(b[64+32:], end); le.PutUint64(b[64+40:], end); return b }, false},
		"a segment that ends in it":           {func(b []byte) []byte { le.PutUint64(b[64+32:], 0x8000); le.PutUint64(b[64+40:], 0x8000); return b }, false},
		"a hole that headers cost as much as": {func([]byte) []byte { return library(file([]piece{cubin(90), {gpucode.Cubin, 75, 0x11, 20000, ""}})) }, false},
		"something between containers": {func([]byte) []byte {
			code := file([]piece{cubin(90), {gpucode.Cubin, 75, 0x11, 90000, ""}}, []piece{cubin(90)})
			return library(slices.Insert(code, int(read(code).Containers[1].Off), bytes.Repeat([]byte{0x77}, 90000)...))
		}, false},
		"as many headers as there may be": {func(b []byte) []byte { b[56] = 70; return b }, false},
		"addresses that no page has":      {func(b []byte) []byte { le.PutUint64(b[64+16:], 8); return b }, false},
	} {
		b := c.broken(bytes.Clone(good))
		code := read2(t, b)
		p, err := New(bytes.NewReader(b), code, Options{Targets: targets(t, "9.0")})
		if err != nil {
			t.Fatal(err)
		}
		cut, err := p.cut(bytes.NewReader(b), int64(len(b)), code)
		if cut != nil || (err != nil) != c.err || err != nil && !errors.Is(err, ErrNoCut) {
			t.Errorf("%s: %v, %v", name, cut, err)
		}
	}
	// So many headers that a program's kernel reads them, with four for later edits and one for a segment that the table
	// may need, for the largest holes.
	pieces := make([][]piece, 100)
	for i := range pieces {
		pieces[i] = []piece{cubin(90), {gpucode.Cubin, 75, 0x11, 40000 + i%2*50000, ""}}
	}
	b := library(file(pieces...))
	_, out := cutOf(t, b, Options{Targets: targets(t, "9.0")})
	if n := int(le.Uint16(out[56:])); 64+(n+5)*56 > 4096 || 64+(n+6)*56 <= 4096 {
		t.Errorf("%d program headers", n)
	}
	if len(b)-len(out) < 50*80000 {
		t.Errorf("%d bytes of %d", len(out), len(b))
	}
}

// A section of GPU code that ends after the file is not read, nor one behind which nothing more is: the file is malformed.
func TestSectionThatEndsAfterTheFile(t *testing.T) {
	good := library(file([]piece{cubin(90), {gpucode.Cubin, 75, 0x11, 90000, ""}}))
	le := binary.LittleEndian
	at := le.Uint64(good[40:]) + 2*64 // .nv_fatbin's header
	for _, field := range []uint64{24, 32} {
		for _, v := range []uint64{uint64(len(good)), 16 * uint64(len(good)), 1<<64 - 8} {
			b := bytes.Clone(good)
			le.PutUint64(b[at+field:], v)
			_, err := listed(bytes.NewReader(b), int64(len(b)))
			if malformed := new(elfimage.FormatError); !errors.As(err, &malformed) || malformed.Off != int64(at+24) {
				t.Errorf("%d is %#x: %v", field, v, err)
			}
		}
	}
}

// Where a container cannot be read to its end nobody knows where it ends: nothing is cut in its section, and who forgets
// that is told by the check.
func TestNotCutBesideDamage(t *testing.T) {
	le := binary.LittleEndian
	good := []piece{cubin(90), {gpucode.Cubin, 75, 0x11, 90000, ""}}
	for name, broken := range map[string]func(head []byte){
		"another version":           func(head []byte) { le.PutUint16(head[4:], 7) },
		"longer than the section":   func(head []byte) { le.PutUint64(head[8:], 1<<40) },
		"an entry of no known form": func(head []byte) { le.PutUint16(head[18:], 0x0909) },
	} {
		code := file(good, []piece{cubin(90)}, good)
		all := listRaw(code)
		head, behind := code[all[1].Off:], all[2].Off
		clear(head[16+64+64 : behind-all[1].Off])
		broken(head)
		code = slices.Insert(code, int(behind), make([]byte, 200000)...) // the damaged one's
		b := library(code)
		f := read2(t, b)
		p, err := New(bytes.NewReader(b), f, Options{Targets: targets(t, "9.0")})
		if err != nil || p.Left[Damaged] != 1 {
			t.Fatalf("%s: %v, %v", name, p.Left, err)
		}
		if c, err := p.cut(bytes.NewReader(b), int64(len(b)), f); c != nil || err != nil {
			t.Errorf("%s: %v, %v", name, c, err)
		}
		for i := range f.Containers {
			f.Containers[i].Damage = nil
		}
		c, err := p.cut(bytes.NewReader(b), int64(len(b)), f)
		if err != nil || c == nil {
			t.Fatalf("%s: no cut: %v", name, err)
		}
		var out growing
		if err := c.Apply(&out); err != nil {
			t.Fatal(err)
		}
		if err := c.Check(bytes.NewReader(out.b), int64(len(out.b))); !errors.Is(err, ErrCheck) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A program header of what nothing maps, as RISC-V's of .riscv.attributes, goes where its bytes go, and the check finds where it does not.
func TestCutWithUnmappedHeader(t *testing.T) {
	le := binary.LittleEndian
	for _, vaddr := range []uint64{0, 0x100, 1 << 40} { // also one at which something else is
		b := library(file([]piece{cubin(90), {gpucode.Cubin, 75, 0x11, 90000, ""}}, []piece{cubin(90)}))
		comment := bytes.Index(b, []byte("made by hand"))
		le.PutUint16(b[56:], 4)
		codec.EncodeProg(b[64+3*56:], elfimage.Prog{Type: 0x70000003, Flags: elf.PF_R, Off: uint64(comment), Vaddr: vaddr, Filesz: 12, Align: 1})
		c, out := cutOf(t, b, Options{Targets: targets(t, "9.0")})
		if err := c.Check(bytes.NewReader(out), int64(len(out))); err != nil {
			t.Error(err)
		}
		at := 0
		for i := range int(le.Uint16(out[56:])) {
			if h := out[64+56*i:]; le.Uint32(h) == 0x70000003 {
				at = 64 + 56*i
			}
		}
		if off := le.Uint64(out[at+8:]); !bytes.HasPrefix(out[off:], []byte("made by hand")) {
			t.Errorf("is at %#x", off)
		}
		for _, wrong := range []uint64{uint64(comment), 0x100, 1 << 50} {
			le.PutUint64(out[at+8:], wrong)
			if err := c.Check(bytes.NewReader(out), int64(len(out))); !errors.Is(err, ErrCheck) {
				t.Errorf("at %#x: %v", wrong, err)
			}
		}
	}
}

// What a broken plan could do to headers and bytes, the check finds.
func TestCheckFindsBrokenCuts(t *testing.T) {
	b := library(file([]piece{cubin(90), {gpucode.Cubin, 75, 0x11, 90000, ""}}, []piece{{gpucode.Cubin, 80, 0x11, 70000, ""}, cubin(90)}, []piece{cubin(90)}))
	c, good := cutOf(t, b, Options{Targets: targets(t, "9.0")})
	if err := c.Check(bytes.NewReader(good), int64(len(good))); err != nil {
		t.Fatal(err)
	}
	le := binary.LittleEndian
	f, err := elf.NewFile(bytes.NewReader(good))
	if err != nil || len(f.Progs) != 5 || len(f.Sections) != 11 || f.Progs[0].Flags&elf.PF_X == 0 || f.Progs[1].Flags != elf.PF_R {
		t.Fatalf("%d program headers, %d sections, flags of a piece without code %v, %v", len(f.Progs), len(f.Sections), f.Progs[1].Flags, err)
	}
	prog := func(i, field int) func([]byte) []byte { return func(b []byte) []byte { return b[64+56*i+field:] } }
	section := func(i, field int) func([]byte) []byte {
		return func(b []byte) []byte { return b[int(le.Uint64(b[40:]))+64*i+field:] }
	}
	add := func(at func([]byte) []byte, n int64) func([]byte) {
		return func(b []byte) { le.PutUint64(at(b), le.Uint64(at(b))+uint64(n)) }
	}
	set := func(at func([]byte) []byte, v uint32) func([]byte) { return func(b []byte) { le.PutUint32(at(b), v) } }
	all := func(all ...func([]byte)) func([]byte) {
		return func(b []byte) {
			for _, f := range all {
				f(b)
			}
		}
	}
	const flags, off, vaddr, paddr, filesz, memsz, align = 4, 8, 16, 24, 32, 40, 48 // of a program header
	const shType, shFlags, shAddr, shOff, shSize = 4, 8, 16, 24, 32
	page := int64(4096)
	symbol := int(f.Section(".symtab").Offset) + 3*24
	second := f.Sections[9]
	for name, broken := range map[string]func(b []byte){
		"a piece at another place of the file":  add(prog(1, off), page),
		"a piece at another address":            all(add(prog(1, vaddr), page), add(prog(1, paddr), page)),
		"another physical address":              add(prog(1, paddr), page),
		"a piece a page longer":                 all(add(prog(0, filesz), page), add(prog(0, memsz), page)),
		"a piece a page shorter":                all(add(prog(0, filesz), -page), add(prog(0, memsz), -page)),
		"a piece without its last bytes":        all(add(prog(2, filesz), -16), add(prog(2, memsz), -16)),
		"a piece that begins late":              all(add(prog(1, off), page), add(prog(1, vaddr), page), add(prog(1, paddr), page), add(prog(1, filesz), -page), add(prog(1, memsz), -page)),
		"memory made of zeros":                  add(prog(0, memsz), page),
		"a piece that may be written":           set(prog(1, flags), uint32(elf.PF_R|elf.PF_W)),
		"code that may not be executed":         set(prog(0, flags), uint32(elf.PF_R)),
		"an alignment that does not hold":       add(prog(1, align), 1<<21-page),
		"an alignment of no page":               add(prog(1, align), 16-page),
		".bss smaller":                          add(prog(3, memsz), -page),
		".data elsewhere in the file":           add(prog(3, off), page),
		"RELRO elsewhere in the file":           add(prog(4, off), page),
		"RELRO larger":                          add(prog(4, memsz), 8),
		"a segment gone":                        set(prog(1, 0), uint32(elf.PT_NULL)),
		"RELRO gone":                            set(prog(4, 0), uint32(elf.PT_NULL)),
		"another machine":                       func(b []byte) { b[18] = 40 },
		"another entry":                         func(b []byte) { b[24]++ },
		"fewer sections":                        func(b []byte) { b[60]-- },
		"a section's address":                   add(section(9, shAddr), page),
		"a section's place":                     add(section(9, shOff), page),
		"a section's size":                      add(section(9, shSize), -page),
		"a section's type":                      set(section(9, shType), uint32(elf.SHT_NOBITS)),
		"a section's flags":                     set(section(9, shFlags), uint32(elf.SHF_ALLOC|elf.SHF_WRITE)),
		"the first piece of a section too long": add(section(2, shSize), page),
		"another section's place":               add(section(3, shOff), 8),
		"another section's size":                add(section(4, shSize), -8),
		"the comment elsewhere":                 add(section(8, shOff), 1),
		"the names elsewhere":                   add(section(7, shOff), 1),
		"a byte of code":                        func(b []byte) { b[0x2000]++ },
		"a byte of GPU code":                    func(b []byte) { b[second.Offset+second.Size-200]++ },
		"a byte behind it":                      func(b []byte) { b[f.Section(".rodata").Offset+5]++ },
		"a byte of data":                        func(b []byte) { b[f.Section(".data").Offset+5]++ },
		"a byte of the comment":                 func(b []byte) { b[f.Section(".comment").Offset+5]++ },
		"a symbol's value":                      func(b []byte) { b[symbol+8]++ },
		"a symbol's section":                    func(b []byte) { b[symbol+6] = 9 },
		"a symbol of another section":           func(b []byte) { b[symbol+6] = 3 },
		"the file too short":                    nil,
	} {
		m := bytes.Clone(good)
		if broken == nil {
			m = m[:len(m)-1]
		} else {
			broken(m)
		}
		if bytes.Equal(m, good) {
			t.Errorf("%s: breaks nothing", name)
		} else if err := c.Check(bytes.NewReader(m), int64(len(m))); err == nil {
			t.Errorf("%s: not found", name)
		}
	}
}
