package elfimage

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const librarySource = `
int answer_one(void) { return 1; }
int answer_two(void) { return 2; }
__asm__(".symver answer_one,answer@ONE"); __asm__(".symver answer_two,answer@@TWO");
extern int puts(const char *);
char zeros[70000], *strings[] = {"libplugin.so.3"};
__thread int local = 1;
int say(void) { return puts(strings[0]) + zeros[3] + local; }
__asm__(".section .note.dlopen,\"a\",%note\n.align 4\n.long 4, 2f-1f, 0x407c0c0a\n.asciz \"FDO\"\n"
	"1: .asciz \"[{\\\"soname\\\":[\\\"libdl-one.so\\\"],\\\"feature\\\":\\\"f\\\",\\\"priority\\\":\\\"required\\\"}]\"\n2: .align 4\n"
	".section .note.nixos.ldcache,\"a\",%note\n.align 4\n.long 6, 4f-3f, 0x63a86cb6\n.asciz \"NixOS\"\n.align 4\n"
	"3: .asciz \"libc.so.6\"\n.asciz \"=/nix/store/x/libc.so.6:?/nix/store/y\"\n.asciz \"\"\n4: .align 4\n.text\n");
`

// linked builds a library, or with -pie a program, and returns it; hash is --hash-style.
func linked(t *testing.T, flags ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	source := librarySource
	if slices.Contains(flags, "-pie") {
		source = strings.Replace(librarySource, "__asm__(\".symver answer_one,answer@ONE\"); __asm__(\".symver answer_two,answer@@TWO\");", "int main(void) { return 0; }", 1)
	}
	for name, text := range map[string]string{"a.c": source, "map": "ONE { global: answer; local: *_one; *_two; };\nTWO { global: answer; } ONE;\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	args := append([]string{"-O1", "-g", "-fPIC", "-o", filepath.Join(dir, "out"), filepath.Join(dir, "a.c"), "-Wl,-rpath,/one:/two"}, flags...)
	if !slices.Contains(flags, "-pie") {
		args = append(args, "-shared", "-Wl,-soname,liba.so.1,--version-script="+filepath.Join(dir, "map"))
	}
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Skipf("gcc: %v, %.300s", err, out)
	}
	b, err := os.ReadFile(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// readings are the ways to parse the same bytes, which read it in pieces or keep it.
func readings(t *testing.T, b []byte) map[string]*Image {
	t.Helper()
	all := map[string]*Image{}
	for name, parse := range map[string]func(io.ReaderAt, int64, []byte) (*Image, error){
		"in pieces": inPieces, "kept": ParseHead,
		"with a short head": func(r io.ReaderAt, n int64, head []byte) (*Image, error) { return ParseHead(r, n, head[:100]) },
		"as the loader": func(r io.ReaderAt, n int64, head []byte) (*Image, error) {
			im, err := ParseLoad(r, n, head)
			if err == nil {
				if len(im.Sections) > 0 || !im.HasSections() {
					t.Errorf("ParseLoad has read %d sections", len(im.Sections))
				}
				im.ReadSections()
			}
			return im, err
		},
	} {
		im, err := parse(bytes.NewReader(b), int64(len(b)), b[:min(len(b), HeadSize)])
		if err != nil {
			t.Fatal(name, err)
		}
		all[name] = im
	}
	return all
}

// inPieces is ParseHead of a file that is too large to be kept.
func inPieces(r io.ReaderAt, size int64, head []byte) (*Image, error) {
	im, done, err := parseHead(r, size, head, false)
	if done {
		return im, err
	}
	return im.parse()
}

// An image says of a linker's file what the standard library's reader says.
func TestImageSaysWhatIsThere(t *testing.T) {
	for _, flags := range [][]string{{"-Wl,--hash-style=gnu"}, {"-Wl,--hash-style=sysv"}, {"-Wl,--hash-style=both", "-Wl,--disable-new-dtags"}, {"-pie"}} {
		b := linked(t, flags...)
		std, err := elf.NewFile(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		for how, im := range readings(t, b) {
			same := func(what string, got, want any) {
				t.Helper()
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("%v, %s: %s: %s", flags, how, what, d)
				}
			}
			needed, err := im.Needed()
			want, _ := std.ImportedLibraries()
			same("needed", needed, want)
			same("error", err, nil)
			tag, list, err := im.RunPath()
			wantTag := elf.DT_RUNPATH
			if slices.Contains(flags, "-Wl,--disable-new-dtags") {
				wantTag = elf.DT_RPATH
			}
			same("run path", []any{tag, list, err}, []any{wantTag, "/one:/two", nil})
			_, shadowed, _ := im.Shadowed()
			same("shadowed", shadowed, false)
			soname, _ := im.Soname()
			interpreter, _ := im.Interpreter()
			if flags[0] == "-pie" {
				same("soname", soname, "")
				same("interpreter", interpreter, strings.TrimRight(string(b[im.Prog(elf.PT_INTERP).Off:][:im.Prog(elf.PT_INTERP).Filesz]), "\x00"))
			} else {
				same("soname, interpreter", []string{soname, interpreter}, []string{"liba.so.1", ""})
			}
			same("reason", im.SkipReason(), Reason(""))
			same("loadable", im.Loadable(), true)
			same("stack", im.Stack() == nil, false)
			same("size", im.Size(), int64(len(b)))
			for i, s := range std.Sections {
				h := im.Sections[i]
				same("section", []any{im.SectionName(i), h.Type, h.Flags, h.Addr, h.Off, h.Size, h.Link, h.Info, h.Addralign, h.Entsize},
					[]any{s.Name, s.Type, s.Flags, s.Addr, s.Offset, s.FileSize, s.Link, s.Info, s.Addralign, s.Entsize})
				coded := make([]byte, im.ShdrSize())
				im.EncodeSection(coded, h)
				same("encoded section", coded, b[im.Shoff+uint64(i)*im.ShdrSize():][:im.ShdrSize()])
			}
			for i, p := range std.Progs {
				coded := make([]byte, im.PhdrSize())
				im.EncodeProg(coded, im.Progs[i])
				same("program header", []any{im.Progs[i].Type, im.Progs[i].Off, im.Progs[i].Vaddr}, []any{p.Type, p.Off, p.Vaddr})
				same("encoded program header", coded, b[im.Phoff+uint64(i)*im.PhdrSize():][:im.PhdrSize()])
			}
			same("string section", im.SectionName(im.StringSection()), ".dynstr")

			l, known, err := im.Linkage()
			same("linkage known", []any{known, err}, []any{true, nil})
			stdSymbols, _ := std.DynamicSymbols()
			for i, s := range stdSymbols {
				y, version := l.symbol(uint32(i+1)), ""
				if _, _, v := l.version(uint32(i + 1)); v != nil {
					version = v.Name
				}
				same("symbol", []any{l.text(y.name), y.value, y.info, y.section, version}, []any{s.Name, s.Value, s.Info, s.Section, s.Version})
				budget := 1000
				if r := (Reference{Name: s.Name, hash: gnuHash([]byte(s.Name))}); y.open() != l.Defines(&r, false, &budget) {
					t.Errorf("%s is found: %v", s.Name, !y.open())
				}
			}
			same("number of symbols", l.Symbols, uint64(len(stdSymbols)+1))
			same("puts is looked up", slices.ContainsFunc(l.References, func(r Reference) bool { return r.Name == "puts" }), true)

			versions, err := im.VersionsNeeded()
			same("error", err, nil)
			stdVersions, _ := std.DynamicVersionNeeds()
			n := 0
			for _, v := range stdVersions {
				for _, d := range v.Needs {
					same("version", slices.ContainsFunc(versions, func(w Version) bool { return w.Library == v.Name && w.Name == d.Dep }), true)
					n++
				}
			}
			same("number of versions", len(versions), n)
			refs := 0
			same("refs", im.EachVersionRef(func(r VersionRef) error { refs++; return nil }), nil)
			if refs < n+len(stdVersions) {
				t.Errorf("%d version references of at least %d", refs, n+len(stdVersions))
			}
			strs := map[uint64]bool{}
			complete, err := im.EachStringRef(func(off, at uint64) { strs[off] = true })
			same("string references", []any{complete, err}, []any{true, nil})
			for _, s := range stdSymbols {
				at := bytes.Index(b[im.StrOff:im.StrOff+im.StrSize], []byte("\x00"+s.Name+"\x00"))
				same("reference of "+s.Name, at < 0 || strs[uint64(at+1)], true)
			}

			notes, err := im.DlopenNotes()
			same("dlopen notes", []any{len(notes), err}, []any{1, nil})
			same("dlopen note", notes[0], DlopenNote{Sonames: []string{"libdl-one.so"}, Feature: "f", Priority: "required"})
			raw, err := im.NoteDescriptors("GNU", 3)
			id, _ := std.Section(".note.gnu.build-id").Data()
			same("build ID", []any{raw[0], err}, []any{id[16:], nil})
			cache, err := im.ResolutionCache()
			same("cache", []any{cache.Description, err}, []any{"libc.so.6\x00=/nix/store/x/libc.so.6:?/nix/store/y\x00\x00", nil})
			s := std.Section(".note.nixos.ldcache")
			same("place of the cache", []any{cache.Off, im.SectionName(cache.Section)}, []any{s.Offset, s.Name})
			of, err := im.NotesAreOf([]string{"NixOS"}, s.Offset, s.FileSize, 4)
			same("owner", []any{of, err}, []any{true, nil})
			of, _ = im.NotesAreOf([]string{"GNU", "FDO"}, s.Offset, s.FileSize, 4)
			same("other owners", of, false)

			same("contradiction", im.Contradiction(), nil)
			im.Release()
			im.Release()
		}
	}
}

// Each byte that a header or a dynamic entry names has an owner, in order of offset.
func TestOwners(t *testing.T) {
	b := linked(t, "-Wl,--hash-style=both")
	im, err := Parse(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	owners := im.Owners()
	if !slices.IsSortedFunc(owners, func(a, b Owner) int { return int(a.Off) - int(b.Off) }) {
		t.Error("owners are not in order")
	}
	has := func(kind OwnerKind, off, size uint64) {
		t.Helper()
		if !slices.ContainsFunc(owners, func(o Owner) bool { return o.Kind == kind && o.Off == off && o.Size == size }) {
			t.Errorf("no owner of kind %d at %#x, %d bytes", kind, off, size)
		}
	}
	has(FileHeader, 0, 64)
	has(ProgramHeaders, im.Phoff, uint64(len(im.Progs))*56)
	has(SectionHeaders, im.Shoff, uint64(len(im.Sections))*64)
	for i := range im.Sections {
		s := &im.Sections[i]
		if s.HasBytes() {
			has(OfSection, s.Off, s.Size)
		}
		switch s.Type {
		case elf.SHT_DYNSYM, elf.SHT_GNU_VERSYM, elf.SHT_GNU_VERNEED, elf.SHT_GNU_VERDEF, elf.SHT_HASH, elf.SHT_GNU_HASH, elf.SHT_INIT_ARRAY:
			has(OfDynamic, s.Off, s.Size)
		case elf.SHT_NOTE:
			if s.Size > 0 && im.SectionName(i) == ".note.gnu.property" {
				has(OfSegment, s.Off, s.Size)
			}
		case elf.SHT_RELA:
			if strings.HasSuffix(im.SectionName(i), "plt") {
				has(OfDynamic, s.Off, s.Size)
			}
		}
	}
}

// A field that contradicts the others is named, and where it stands.
func TestContradictions(t *testing.T) {
	b := linked(t, "-Wl,--hash-style=both")
	parse := func(b []byte) *Image {
		im, err := Parse(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		return im
	}
	sound := parse(b)
	section := func(name string, change func(s *Section)) func(b []byte) {
		return func(b []byte) {
			for i := range sound.Sections {
				if sound.SectionName(i) == name {
					s := sound.Sections[i]
					change(&s)
					sound.EncodeSection(b[sound.Shoff+uint64(i)*64:], s)
					return
				}
			}
			t.Fatalf("no section %s", name)
		}
	}
	prog := func(typ elf.ProgType, change func(p *Prog)) func(b []byte) {
		return func(b []byte) {
			for i, p := range sound.Progs {
				if p.Type == typ {
					change(&p)
					sound.EncodeProg(b[sound.Phoff+uint64(i)*56:], p)
					return
				}
			}
			t.Fatalf("no %v", typ)
		}
	}
	dyn := func(tag, to elf.DynTag, add uint64) func(b []byte) {
		return func(b []byte) {
			d, ok := sound.Dyn(tag)
			if !ok {
				t.Fatalf("no %v", tag)
			}
			binary.LittleEndian.PutUint64(b[d.Off:], uint64(to))
			binary.LittleEndian.PutUint64(b[d.Off+8:], d.Val+add)
		}
	}
	for want, damage := range map[string]func(b []byte){
		"sh_addralign 0x3, not a power of two":   section(".dynsym", func(s *Section) { s.Addralign = 3 }),
		"outside the file of":                    section(".comment", func(s *Section) { s.Off = 1 << 40 }),
		"which is in no PT_LOAD":                 section(".hash", func(s *Section) { s.Addr = 1 << 40 }),
		"is mapped to offset":                    section(".hash", func(s *Section) { s.Off += 8 }),
		"and PT_DYNAMIC has p_filesz":            section(".dynamic", func(s *Section) { s.Size -= 16 }),
		"p_align 0x3, not a power of two":        prog(elf.PT_GNU_EH_FRAME, func(p *Prog) { p.Align = 3 }),
		"PT_GNU_STACK has p_filesz":              prog(elf.PT_GNU_STACK, func(p *Prog) { p.Filesz, p.Off = 16, 64 }),
		"PT_GNU_EH_FRAME of 1099511627776 bytes": prog(elf.PT_GNU_EH_FRAME, func(p *Prog) { p.Filesz = 1 << 40 }),
		"PT_GNU_EH_FRAME has p_offset":           prog(elf.PT_GNU_EH_FRAME, func(p *Prog) { p.Off += 8 }),
		"PT_DYNAMIC has p_filesz":                prog(elf.PT_DYNAMIC, func(p *Prog) { p.Memsz += 8 }),
		"DT_SYMENT is":                           dyn(elf.DT_SYMENT, elf.DT_SYMENT, 8),
		"is there twice":                         dyn(elf.DT_FINI_ARRAY, elf.DT_INIT_ARRAY, 0),
		"unterminated string":                    dyn(elf.DT_STRSZ, elf.DT_STRSZ, ^uint64(3)),
		"DT_GNU_HASH is":                         dyn(elf.DT_HASH, elf.DT_GNU_HASH, 0),
		"are in no PT_LOAD":                      dyn(elf.DT_INIT_ARRAY, elf.DT_INIT_ARRAY, 1<<40),
		"overlaps":                               section(".gnu.version", func(s *Section) { s.Size += 400 }),
		"of a string table of":                   dyn(elf.DT_SONAME, elf.DT_SONAME, 1<<40),
	} {
		damaged := bytes.Clone(b)
		damage(damaged)
		if err := parse(damaged).Contradiction(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	if err := sound.Contradiction(); err != nil {
		t.Error(err)
	}
}

// Of two that own the same bytes the one is named that the loader depends on less, and where that is said.
func TestOverlapNamesTheField(t *testing.T) {
	b := linked(t, "-Wl,--hash-style=both")
	sound, err := Parse(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	comment := slices.IndexFunc(sound.Sections, func(s Section) bool { return s.Type == elf.SHT_PROGBITS && s.Flags&elf.SHF_ALLOC == 0 })
	init, _ := sound.Dyn(elf.DT_INIT_ARRAY)
	for what, c := range map[string]struct{ at, value uint64 }{
		"overlaps the program headers": {sound.Shoff + uint64(comment)*64 + 24, 64},
		"overlaps PT_DYNAMIC":          {init.Off + 8, sound.Prog(elf.PT_DYNAMIC).Vaddr},
	} {
		damaged := bytes.Clone(b)
		binary.LittleEndian.PutUint64(damaged[c.at:], c.value)
		im, err := Parse(bytes.NewReader(damaged), int64(len(damaged)))
		if err != nil {
			t.Fatal(err)
		}
		var format *FormatError
		if err := im.Contradiction(); !errors.As(err, &format) || !strings.Contains(err.Error(), what) || format.Off != int64(c.at) {
			t.Errorf("%s, said at %#x: %v", what, c.at, err)
		}
	}
}

// A string is as long as it is, and ends with the file at the latest.
func TestLongString(t *testing.T) {
	long := strings.Repeat("a", 3000)
	data := []byte(long + "\x00" + long)
	im := &Image{window: newWindow(bytes.NewReader(data), uint64(len(data)), nil)}
	if s, err := im.cstring(10, 1<<40); err != nil || s != long[10:] {
		t.Errorf("%d bytes, %v", len(s), err)
	}
	var format *FormatError
	for _, limit := range []uint64{3001, 3100, uint64(len(data)), 1 << 40} {
		if s, err := im.cstring(3001, limit); !errors.As(err, &format) || format.Off != 3001 {
			t.Errorf("%d bytes that end at %d: %v", len(s), limit, err)
		}
	}
}

// Of two claims on the same bytes, those of a section and what points to it go together, those
// of relocations of two kinds, and notes in notes; nothing else does, and nothing that crosses.
func TestWhatSharesBytes(t *testing.T) {
	names := []byte("\x00dynstr\x00.text\x00")
	im := &Image{Class: elf.ELFCLASS64, Order: binary.LittleEndian, Type: elf.ET_DYN, window: newWindow(bytes.NewReader(names), uint64(len(names)), nil), Shstrndx: 5,
		Sections: []Section{{Type: elf.SHT_DYNAMIC, NameOff: 8, Addralign: 8}, {Type: elf.SHT_DYNSYM, NameOff: 8, Addralign: 8},
			{Type: elf.SHT_PROGBITS, NameOff: 8, Addralign: 1}, {Type: elf.SHT_PROGBITS, Addralign: 1}, {Type: elf.SHT_PROGBITS, NameOff: 1, Addralign: 1},
			{Type: elf.SHT_STRTAB, Size: uint64(len(names))}}}
	const dynamic, symbols, text, cover, hole = 0, 1, 2, 3, 4
	im.Progs = []Prog{{Type: elf.PT_DYNAMIC}, {Type: elf.PT_NOTE}}
	section := func(i int) Owner { return Owner{Kind: OfSection, Index: i} }
	table := func(tag elf.DynTag) Owner { return Owner{Kind: OfDynamic, Tag: tag} }
	segment := func(i int) Owner { return Owner{Kind: OfSegment, Index: i} }
	type with struct{ same, within, crossing bool }
	always, inside, never := with{true, true, true}, with{true, true, false}, with{}
	for _, c := range []struct {
		what string
		a, b Owner
		typ  elf.Type
		want with
	}{
		{"PT_DYNAMIC, its section", segment(0), section(dynamic), elf.ET_DYN, always},
		{"PT_DYNAMIC, another section", segment(0), section(text), elf.ET_DYN, never},
		{"PT_DYNAMIC, a segment", segment(0), segment(1), elf.ET_DYN, never},
		{"PT_DYNAMIC, a table", segment(0), table(elf.DT_RELA), elf.ET_DYN, never},
		{"the symbols, their section", table(elf.DT_SYMTAB), section(symbols), elf.ET_DYN, inside},
		{"the symbols, another section", table(elf.DT_SYMTAB), section(text), elf.ET_DYN, never},
		{"the versions, the section of the symbols", table(elf.DT_VERSYM), section(symbols), elf.ET_DYN, never},
		{"relocations, any section", table(elf.DT_RELA), section(text), elf.ET_DYN, inside},
		{"the symbols, an edit's section over a hole", table(elf.DT_SYMTAB), section(hole), elf.ET_EXEC, always},
		{"the symbols, a section of that name in a library", table(elf.DT_SYMTAB), section(hole), elf.ET_DYN, never},
		{"the symbols, another section of a program", table(elf.DT_SYMTAB), section(text), elf.ET_EXEC, never},
		{"a segment, a section", segment(1), section(text), elf.ET_DYN, inside},
		{"two segments", segment(1), segment(1), elf.ET_DYN, inside},
		{"a table, a segment", table(elf.DT_RELA), segment(1), elf.ET_DYN, never},
		{"relocations of two kinds", table(elf.DT_RELA), table(elf.DT_JMPREL), elf.ET_DYN, inside},
		{"relocations, symbols", table(elf.DT_RELA), table(elf.DT_SYMTAB), elf.ET_DYN, never},
		{"symbols, versions", table(elf.DT_SYMTAB), table(elf.DT_VERSYM), elf.ET_DYN, never},
		{"two sections", section(text), section(symbols), elf.ET_DYN, never},
		{"a header, a section", Owner{}, section(text), elf.ET_DYN, never},
		{"a header, a segment", Owner{}, segment(1), elf.ET_DYN, never},
		{"a header, a table", Owner{}, table(elf.DT_RELA), elf.ET_DYN, never},
	} {
		im.Type = c.typ
		for how, want := range map[[2]uint64]bool{{100, 200}: c.want.same, {120, 180}: c.want.within, {100, 180}: c.want.within, {120, 200}: c.want.within,
			{50, 250}: c.want.within, {150, 250}: c.want.crossing, {50, 150}: c.want.crossing} {
			a, b := c.a, c.b
			a.Off, a.Size, b.Off, b.Size = 100, 100, how[0], how[1]-how[0]
			if got, turned := im.share(a, b), im.share(b, a); got != want || turned != want {
				t.Errorf("%s, at %d and %d: %v, and the other way round %v", c.what, a.Off, how, got, turned)
			}
		}
	}
}

// Without section headers the number of symbols follows from either hash table.
func TestSymbolsWithoutSections(t *testing.T) {
	for _, style := range []string{"gnu", "sysv", "both"} {
		b := linked(t, "-Wl,--hash-style="+style)
		std, err := elf.NewFile(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		want, err := std.DynamicSymbols()
		if err != nil {
			t.Fatal(err)
		}
		clear(b[40:48]) // e_shoff
		clear(b[60:64]) // e_shnum, e_shstrndx
		im, err := Parse(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		off, n, known := im.DynSymbols()
		if s := std.Section(".dynsym"); off != s.Offset || n != uint64(len(want))+1 || !known {
			t.Errorf("%s: %d symbols at %#x (%v) of %d at %#x", style, n, off, known, len(want)+1, s.Offset)
		}
		l, known, err := im.Linkage()
		if l.Symbols != uint64(len(want)+1) || !known || err != nil {
			t.Errorf("%s: %d symbols of %d (%v, %v)", style, l.Symbols, len(want)+1, known, err)
		}
	}
}

// Entries in pieces are all entries, whole, also where they are not kept.
func TestPieces(t *testing.T) {
	data := make([]byte, 24*9000)
	for i := range data {
		data[i] = byte(i * 7)
	}
	im := &Image{window: newWindow(bytes.NewReader(data), uint64(len(data)), nil)}
	for range 2 {
		var got []byte
		if err := im.EachPiece(24, 8990, 24, func(off uint64, b []byte) {
			if len(b)%24 != 0 || off != 24+uint64(len(got)) {
				t.Errorf("a piece of %d bytes at %d", len(b), off)
			}
			got = append(got, b...)
		}); err != nil || !bytes.Equal(got, data[24:24*8991]) {
			t.Errorf("%d bytes of %d (%v)", len(got), 24*8990, err)
		}
		if err := im.EachPiece(24, 9001, 24, func(uint64, []byte) {}); err == nil {
			t.Error("entries beyond the end of the file are read")
		}
		im.hold()
	}
	if off := im.NextData(100); off != 100 {
		t.Errorf("a file without holes has its next data at %d", off)
	}
}

// What is not edited is told by its kind.
func TestSkipReasonOfALinkersFile(t *testing.T) {
	b := linked(t, "-pie")
	for want, change := range map[Reason]func(b []byte){
		Relocatable: func(b []byte) { b[16] = byte(elf.ET_REL) },
		Core:        func(b []byte) { b[16] = byte(elf.ET_CORE) },
		OtherType:   func(b []byte) { b[16] = 9 },
		CUDACode:    func(b []byte) { b[18] = 190 },
		AMDCode:     func(b []byte) { b[18] = 224 },
		IntelCode:   func(b []byte) { b[18] = 205 },
		OtherLoader: func(b []byte) { b[18], b[7] = 0, 255 },
	} {
		damaged := bytes.Clone(b)
		change(damaged)
		im, err := Parse(bytes.NewReader(damaged), int64(len(b)))
		if err != nil || im.SkipReason() != want || im.Loadable() {
			t.Errorf("%q: %v", want, err)
		}
	}
	im, err := ParseSections(bytes.NewReader(b), int64(len(b)), b[:HeadSize])
	if err != nil || im.SectionName(1) == "" || im.Dynamic != nil {
		t.Errorf("sections alone: %v", err)
	}
}

// What the loader cannot map, or would map something else over, is refused: an edit would go by it.
func TestSegmentsThatCannotBeMapped(t *testing.T) {
	load := func(off, vaddr, filesz, memsz uint64) Prog {
		return Prog{Type: elf.PT_LOAD, Off: off, Vaddr: vaddr, Filesz: filesz, Memsz: memsz, Align: PageSize}
	}
	for want, progs := range map[string][]Prog{
		"":                                   {load(0, 0, 0x800, 0x800), load(0x2000, 0x1000, 0x800, 0x800)},
		"is outside the file of 12288 bytes": {load(0x2000, 0, 0x1001, 0x1001)},
		"and maps other bytes":               {load(0, 0, 0x800, 0x1800), load(0x2000, 0x1000, 0x800, 0x800)},
		"comes after the one":                {load(0x2000, 0x1000, 0x800, 0x800), load(0, 0, 0x800, 0x800)},
	} {
		im := &Image{Class: elf.ELFCLASS64, Progs: progs, window: window{size: 0x3000}}
		if err := im.checkSegments(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// Bytes that follow each other in memory are one range of the file only where they do there, too.
func TestRangesOverSeveralSegments(t *testing.T) {
	for second, want := range map[uint64]bool{0x2000: true, 0x5000: false} {
		im := &Image{Class: elf.ELFCLASS64, Progs: []Prog{
			{Type: elf.PT_LOAD, Off: 0x1000, Vaddr: 0x1000, Filesz: 0x1000, Memsz: 0x1000},
			{Type: elf.PT_LOAD, Off: second, Vaddr: 0x2000, Filesz: 0x1000, Memsz: 0x1000},
		}, window: window{size: 0x8000}}
		if off, ok := im.FileOffset(0x1f00, 0x200); ok != want || ok && off != 0x1f00 {
			t.Errorf("with the second at %#x: %#x, %v", second, off, ok)
		}
	}
}

// The build ID is found by its section where no PT_NOTE covers it, and by PT_NOTE where there are no sections.
func TestBuildID(t *testing.T) {
	const want = "0123456789abcdef"
	whole := linked(t, "-Wl,--build-id=0x"+want)
	without := func(change func(b []byte, f *elf.File)) []byte {
		b := slices.Clone(whole)
		f, err := elf.NewFile(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		change(b, f)
		return b
	}
	noSegment := without(func(b []byte, f *elf.File) {
		for i, p := range f.Progs {
			if p.Type == elf.PT_NOTE {
				clear(b[64+56*i+32 : 64+56*i+40]) // p_filesz
			}
		}
	})
	noSections := without(func(b []byte, _ *elf.File) { clear(b[40:48]); clear(b[58:64]) })
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"both": {whole, want}, "its section alone": {noSegment, want}, "PT_NOTE alone": {noSections, want},
		"none":          {linked(t, "-Wl,--build-id=none"), ""},
		"another owner": {bytes.ReplaceAll(whole, []byte("\x03\x00\x00\x00GNU\x00"), []byte("\x03\x00\x00\x00XYZ\x00")), ""},
	} {
		im, err := Parse(bytes.NewReader(c.file), int64(len(c.file)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, err := im.BuildID(); got != c.want || err != nil {
			t.Errorf("%s: %q, %v, not %q", name, got, err, c.want)
		}
		im.Release()
	}
}
