package elfedit

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"cuda-runpath/pkg/elfimage"
)

// A headerField is a number in the headers, the dynamic section or a note of a file.
type headerField struct {
	name string
	off  uint64
	size int // bytes
}

func headerFields(im *image) (out []headerField) {
	word := int(im.WordSize())
	add := func(at uint64, sizes []int, format string, args ...any) {
		for i, n := range sizes {
			out = append(out, headerField{fmt.Sprintf(format, args...) + fmt.Sprintf(", field %d", i), at, n})
			at += uint64(n)
		}
	}
	add(24, []int{word, word, word, 4, 2, 2, 2, 2, 2, 2}, "ELF header from e_entry on")
	prog := []int{4, 4, word, word, word, word, word, word}
	if !im.Is64() {
		prog = []int{4, 4, 4, 4, 4, 4, 4, 4}
	}
	for i, p := range im.Progs {
		add(im.Phoff+uint64(i)*im.PhdrSize(), prog, "program header %d (%v)", i, p.Type)
		if p.Type == elf.PT_NOTE {
			add(p.Off, []int{4, 4, 4}, "note")
		}
	}
	for i := range im.Sections {
		add(im.Shoff+uint64(i)*im.ShdrSize(), []int{4, 4, word, word, word, word, 4, 4, word, word}, "section header of %q", im.SectionName(i))
	}
	for _, d := range im.Dynamic {
		add(d.Off, []int{word, word}, "%v", d.Tag)
		switch off, mapped := im.FileOffset(d.Val, 32); {
		case !mapped:
		case d.Tag == elf.DT_HASH, d.Tag == elf.DT_SYMTAB, d.Tag == elf.DT_VERNEED:
			add(off, []int{4, 4, 4, 4, 4, 4, 4, 4}, "what %v points to", d.Tag)
		}
	}
	return out
}

func (f headerField) get(im *image, b []byte) uint64 {
	switch b = b[f.off:]; f.size {
	case 2:
		return uint64(im.Order.Uint16(b))
	case 4:
		return uint64(im.Order.Uint32(b))
	}
	return im.Order.Uint64(b)
}

func (f headerField) put(im *image, b []byte, v uint64) {
	switch b = b[f.off:]; f.size {
	case 2:
		im.Order.PutUint16(b, uint16(v))
	case 4:
		im.Order.PutUint32(b, uint32(v))
	default:
		im.Order.PutUint64(b, v)
	}
}

// Whatever number a header has in place of the right one, the edit is made, or refused
// with what is wrong in the file: never called a fault of this program, for a file is
// left alone with a warning under --malformed warn, and a fault of ours is not.
func TestCorruptedFieldIsNoFaultOfOurs(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	base := map[string]shape{
		"program":             plain().with(func(l *shape) { l.runpath = "/old/run/path" }),
		"library with .bss":   plain().with(func(l *shape) { l.program, l.bss, l.after = false, 100, "alive" }),
		"not PIE, versions":   plain().with(func(l *shape) { l.typ, l.versions, l.spare = elf.ET_EXEC, true, 0 }),
		"big-endian, 32 bits": plain().with(func(l *shape) { l.class, l.order, l.machine = elf.ELFCLASS32, bigOrder, elf.EM_PPC }),
	}
	interp, stack := "/a/longer/interpreter/than/the/one/that/there/is/ld.so", true
	changes := []Change{
		setPath(elf.DT_RUNPATH, strings.Repeat("/long", 500)),
		setPath(elf.DT_RUNPATH, "/o"),
		{Needed: &Needed{Names: []string{"libanother.so.7"}, Renamed: map[string]string{"libc.so.6": "libanother.so.7"}}},
		{Interpreter: &interp, ExecStack: &stack, ClearVersions: []string{"malloc"}},
	}
	for name, l := range base {
		t.Run(name, func(t *testing.T) {
			old := l.build(t)
			im := parse(t, old)
			refused := 0
			for _, f := range headerFields(im) {
				was := f.get(im, old)
				for _, v := range []uint64{0, 3, 5, was + 1, was - 1, was + 16, was + 0x1000, was * 2, 1 << 31, math.MaxUint64, im.size, im.DynOff, uint64(elf.SHT_NOBITS)} {
					b := bytes.Clone(old)
					if f.put(im, b, v); f.get(im, b) == was {
						continue
					}
					for i, c := range changes {
						err := planOf(b, c)
						var format *elfimage.FormatError
						switch {
						case err == nil, errors.As(err, &format), errors.Is(err, errSkipped):
						case strings.Contains(err.Error(), "no room for what is new"), errors.Is(err, errNoInterpreter):
							refused++
						default:
							t.Errorf("%s: %#x instead of %#x at offset %#x, change %d: %v", f.name, f.get(im, b), was, f.off, i, err)
						}
					}
				}
			}
			t.Logf("%d refused for want of room", refused)
		})
	}
}

var errSkipped = errors.New("skipped")

// planOf parses a file and plans a change of it. A panic is an error.
func planOf(b []byte, c Change) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("panic: %v", fault)
		}
	}()
	im, err := parseFile(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return err
	}
	if im.SkipReason() != "" {
		return errSkipped
	}
	_, err = im.plan(c)
	return err
}

// Blame falls on a file only where its headers contradict each other. Sound ones, edited
// ones, and those that an edit was killed over do not, so a fault of ours stays one.
func TestSoundFilesHaveNoContradiction(t *testing.T) {
	for name, l := range shapes {
		if strings.HasPrefix(name, ".dynamic across") || l.align > 4096 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			b := l.build(t)
			stack, soname := true, "libanother.so.1"
			several := Change{Soname: &soname, ExecStack: &stack, Needed: &Needed{Names: append([]string{"libfirst.so"}, l.needed...)}, ClearVersions: []string{"malloc"}}
			if l.program {
				interp := "/a/longer/interpreter/than/the/one/that/there/is/ld.so"
				several.Interpreter = &interp
			}
			for i, c := range []Change{setPath(elf.DT_RUNPATH, lists[1]), setPath(elf.DT_RUNPATH, "/x"), several, setPath(elf.DT_RUNPATH, lists[2]), setPath(elf.DT_NULL, "")} {
				im := parse(t, b)
				fault := bug("is wrong")
				if err := im.blame(fault); err != fault {
					t.Fatalf("before change %d: %v", i, err)
				}
				e, err := im.plan(c)
				if err != nil {
					t.Fatal(err)
				}
				if e == nil {
					continue
				}
				for n, state := range statesOf(t, e) {
					if err := asItIs(t, state).Contradiction(); err != nil {
						t.Errorf("change %d, after %d of %d writes: %v", i, n, len(e.writes), err)
					}
				}
				b = edit(t, b, c)
			}
		})
	}
}

// Nor does it fall on what any other change leaves when it is killed: a table of versions that moves has other names
// than the one that it is a copy of.
func TestKilledChangesLeaveNoContradiction(t *testing.T) {
	l := plain().with(func(l *shape) { l.versions, l.program = true, true })
	for what, ch := range changes {
		c := ch.c
		for i, state := range states(t, l.build(t), c) {
			if err := parse(t, state).Contradiction(); err != nil {
				t.Errorf("%s, after %d writes: %v", what, i, err)
			}
		}
	}
}

// asItIs is an image whose section headers are those of the file.
func asItIs(t *testing.T, b []byte) *elfimage.Image {
	t.Helper()
	im, err := elfimage.Parse(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return im
}
