package elfedit

import (
	"cmp"
	"debug/elf"
	"fmt"
	"io"
	"slices"
	"strings"

	"cuda-runpath/pkg/elfimage"
)

// An Edit is the writes that bring about a Change, in an order that leaves the
// image loadable, with its old or its new run path, after each of them. Writes
// below 4 KiB that stay inside a page count as indivisible: a killed process does
// not leave half of one in the page cache.
type Edit struct {
	im     *image
	writes []write
	// The first writes touch nothing that the file uses yet, so they can be taken back.
	prepared int
	size     int64 // of the file afterwards
}

// A write is data at an offset, or where data is nil a copy of n bytes from
// another offset of the same file.
type write struct {
	off  uint64
	data []byte
	from uint64
	n    uint64
}

func (w write) len() uint64 {
	if w.data != nil {
		return uint64(len(w.data))
	}
	return w.n
}

// A Writer is the file that Apply writes to: the one that the image was parsed
// from. Truncate takes a size in bytes, as (*os.File).Truncate does.
type Writer interface {
	io.WriterAt
	Truncate(size int64) error
}

// Growth returns by how many bytes the file becomes larger.
func (e *Edit) Growth() int64 { return e.size - int64(e.im.size) }

// Written returns the number of bytes that Apply writes.
func (e *Edit) Written() int64 {
	var n uint64
	for _, w := range e.writes {
		n += w.len()
	}
	return int64(n)
}

// Apply performs the writes. Where one fails before any that the file depends on,
// what was written is taken back and the file is what it was; where a later one
// fails, the file loads with the old or with the new run path.
func (e *Edit) Apply(w Writer) error {
	for i, wr := range e.writes {
		err := e.perform(w, wr)
		if err == nil {
			continue
		}
		if i < e.prepared {
			return e.undo(w, e.writes[:i+1], err)
		}
		return err
	}
	return nil
}

func (e *Edit) perform(w io.WriterAt, wr write) error {
	if wr.data != nil {
		return writeFull(w, wr.data, wr.off)
	}
	buf := make([]byte, min(wr.n, 1<<20))
	for done := uint64(0); done < wr.n; {
		b := buf[:min(uint64(len(buf)), wr.n-done)]
		if err := elfimage.ReadFull(e.im, b, wr.from+done); err != nil {
			return err
		}
		if err := writeFull(w, b, wr.off+done); err != nil {
			return err
		}
		done += uint64(len(b))
	}
	return nil
}

func writeFull(w io.WriterAt, b []byte, off uint64) error {
	if _, err := w.WriteAt(b, int64(off)); err != nil {
		return fmt.Errorf("writing %d bytes at offset %#x: %w", len(b), off, err)
	}
	return nil
}

// undo takes back writes to bytes that were zero or beyond the end of the file.
func (e *Edit) undo(w Writer, writes []write, cause error) error {
	for _, wr := range writes {
		if wr.off < e.im.size {
			if err := writeFull(w, make([]byte, wr.len()), wr.off); err != nil {
				return fmt.Errorf("%w; taking it back: %w", cause, err)
			}
		}
	}
	if err := w.Truncate(int64(e.im.size)); err != nil {
		return fmt.Errorf("%w; taking it back: %w", cause, err)
	}
	return cause
}

// Plan works out the edit for a change, reading what it needs and writing
// nothing. It returns nil where the file says so already, and an error where the
// file must be left alone, is malformed, or has no place for what is new. The image
// must not be released before the edit has been applied.
func Plan(im *elfimage.Image, c Change) (*Edit, error) { return newImage(im).plan(c) }

func (im *image) plan(c Change) (*Edit, error) {
	if reason := im.LeftAlone(); reason != "" {
		return nil, fmt.Errorf("%s has no run path to edit", reason)
	}
	c, err := c.normal()
	if err != nil {
		return nil, err
	}
	p := &planner{im: im, change: *c.RunPath}
	for i, d := range im.Dynamic {
		if d.Tag == elf.DT_RUNPATH || d.Tag == elf.DT_RPATH {
			p.retired = append(p.retired, i)
		}
	}
	if done, err := p.done(); done || err != nil {
		return nil, err
	}
	if err := im.Hold(); err != nil {
		return nil, err
	}
	e, err := p.plan()
	if err != nil {
		return nil, err
	}
	return e, e.verify(*c.RunPath)
}

// done reports whether the file says already what the change asks for.
func (p *planner) done() (bool, error) {
	if p.change.Tag == elf.DT_NULL {
		return len(p.retired) == 0, nil
	}
	if len(p.retired) != 1 || p.im.Dynamic[p.retired[0]].Tag != p.change.Tag {
		return false, nil
	}
	list, err := p.im.DynString(p.im.Dynamic[p.retired[0]])
	return list == p.change.List, err
}

// overlay shows a file as it is after writes that have not been made.
type overlay struct {
	e *Edit
	n int // writes that count
}

func (o overlay) ReadAt(b []byte, at int64) (int, error) {
	off, end := uint64(at), uint64(at)+uint64(len(b))
	if off < o.e.im.size {
		if err := elfimage.ReadFull(o.e.im, b[:min(uint64(len(b)), o.e.im.size-off)], off); err != nil {
			return 0, err
		}
	}
	clear(b[min(uint64(len(b)), max(o.e.im.size, off)-off):])
	for _, w := range o.e.writes[:o.n] {
		from, to := max(off, w.off), min(end, w.off+w.len())
		if from >= to {
			continue
		}
		if w.data != nil {
			copy(b[from-off:to-off], w.data[from-w.off:])
		} else if err := elfimage.ReadFull(o.e.im, b[from-off:to-off], w.from+from-w.off); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// verify parses the image as the edit will leave it: the run path is the one
// asked for and nothing else that the loader reads by name has changed. A
// mistake in a plan must not reach the file.
func (e *Edit) verify(c RunPath) error {
	planned := overlay{e, len(e.writes)}
	head := e.im.Bytes(uint64(min(e.size, elfimage.HeadSize)))
	if err := elfimage.ReadFull(planned, head, 0); err != nil {
		return err
	}
	after, err := elfimage.ParseHead(planned, e.size, head)
	if err != nil {
		return fmt.Errorf("planned edit does not read back: %w", err)
	}
	defer after.Release()
	tag, list, err := after.RunPath()
	if err != nil {
		return fmt.Errorf("planned edit does not read back: %w", err)
	}
	if tag != c.Tag || (tag != elf.DT_NULL && list != c.List) {
		return fmt.Errorf("planned edit reads back as %v %q", tag, list)
	}
	for _, t := range []elf.DynTag{elf.DT_NEEDED, elf.DT_SONAME, elf.DT_AUXILIARY, elf.DT_FILTER} {
		before, err := e.im.DynStrings(t)
		if err != nil {
			return err
		}
		now, err := after.DynStrings(t)
		if err != nil || strings.Join(before, "\x00") != strings.Join(now, "\x00") {
			return fmt.Errorf("planned edit changes %v (%v)", t, err)
		}
	}
	was, _ := e.im.Interpreter()
	if is, err := after.Interpreter(); err != nil || is != was {
		return fmt.Errorf("planned edit changes PT_INTERP (%v)", err)
	}
	return e.verifyProgs(after.Progs)
}

// verifyProgs makes sure that the program headers which no edit moves are those of
// before, whatever their order, and that each PT_LOAD maps at least what it mapped.
func (e *Edit) verifyProgs(after []elfimage.Prog) error {
	fixed := func(progs []elfimage.Prog) (out []elfimage.Prog) {
		for _, q := range progs {
			_, moves := movableProgs[q.Type]
			if !moves && q.Type != elf.PT_NULL && q.Type != elf.PT_PHDR && q.Type != elf.PT_DYNAMIC {
				out = append(out, q)
			}
		}
		slices.SortStableFunc(out, func(a, b elfimage.Prog) int { return cmp.Compare(a.Type, b.Type) })
		return out
	}
	was, is := fixed(e.im.Progs), fixed(after)
	if len(is) == len(was)+1 { // the new PT_LOAD is the last
		for i := len(is) - 1; i >= 0; i-- {
			if is[i].Type == elf.PT_LOAD {
				is = slices.Delete(is, i, i+1)
				break
			}
		}
	}
	if len(is) != len(was) {
		return fmt.Errorf("planned edit leaves %d program headers of %d", len(is), len(was))
	}
	for i, q := range was {
		n := is[i]
		if q.Type == elf.PT_LOAD && n.Filesz >= q.Filesz && n.Memsz >= q.Memsz {
			n.Filesz, n.Memsz = q.Filesz, q.Memsz
		}
		if n != q {
			return fmt.Errorf("planned edit changes %v at address %#x", q.Type, q.Vaddr)
		}
	}
	return nil
}
