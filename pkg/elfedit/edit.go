package elfedit

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

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
	moved    []string
	first    *Edit // that finishes another one before this one
	finishes bool  // it does nothing but finish another one
	dropped  string
}

// A write is data at an offset, or where data is nil a copy of n bytes from
// another offset of the same file.
type write struct {
	off  uint64
	data []byte
	from uint64
	n    uint64
	cut  bool // no write: the file ends at off
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

// MovedNotes names the sections of notes that had to move and whose owners may have
// counted on their place.
func (e *Edit) MovedNotes() []string { return e.moved }

// Finishes reports whether the file says all that was asked for already, and the edit does
// nothing but finish one that was interrupted: see [Finish].
func (e *Edit) Finishes() bool { return e.finishes }

// Dropped says why what the file says about an edit that was interrupted is not obeyed; "": it is, or there is nothing.
func (e *Edit) Dropped() string {
	if e.first != nil {
		return e.first.dropped
	}
	return e.dropped
}

// Growth returns by how many bytes the file becomes larger.
func (e *Edit) Growth() int64 {
	n := e.size - int64(e.im.size)
	if e.first != nil {
		n += e.first.Growth()
	}
	return n
}

// Written returns the number of bytes that Apply writes.
func (e *Edit) Written() int64 {
	var n uint64
	for _, w := range e.writes {
		n += w.len()
	}
	if e.first != nil {
		return int64(n) + e.first.Written()
	}
	return int64(n)
}

// Apply performs the writes. Where one fails before any that the file depends on,
// what was written is taken back and the file is what it was; where a later one
// fails, the file loads with the old or with the new run path.
func (e *Edit) Apply(w Writer) error {
	if e.first != nil {
		if err := e.first.Apply(w); err != nil {
			return err
		}
	}
	for i, n := 0, 0; i < len(e.writes); i += n {
		var wr write
		var err error
		if wr, n, err = e.inPage(i); err == nil {
			err = e.perform(w, wr)
		}
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

// inPage returns as one write that with an index and those after it that change the same page, and how many they are:
// the page then has all of them or none. What stands between them is written as it is by then. One that can be taken
// back stays by itself.
func (e *Edit) inPage(first int) (write, int, error) {
	one := e.writes[first]
	off, end, n := one.off, one.off+one.len(), 1
	for _, w := range e.writes[first+1:] {
		from, to := min(off, w.off), max(end, w.off+w.len())
		if first < e.prepared || one.data == nil || w.data == nil || !samePage(from, to-from) {
			break
		}
		off, end, n = from, to, n+1
	}
	if n == 1 {
		return one, 1, nil
	}
	one = write{off: off, data: e.im.Alloc(end - off)}
	_, err := (overlay{e, first + n}).ReadAt(one.data, int64(off))
	return one, n, err
}

func (e *Edit) perform(w Writer, wr write) error {
	if wr.cut {
		return w.Truncate(int64(wr.off))
	}
	if wr.data != nil {
		return writeFull(w, wr.data, wr.off)
	}
	buf := make([]byte, min(wr.n, 1<<20))
	for done := uint64(0); done < wr.n; {
		// a hole stays one: what is copied goes after the end of the file
		if data := e.im.NextData(wr.from+done) - wr.from; data > done {
			done = min(data, wr.n)
			if done == wr.n {
				return w.Truncate(int64(wr.off + wr.n))
			}
		}
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

// Planned returns the file as Apply will leave it, and its size.
func (e *Edit) Planned() (io.ReaderAt, int64) { return overlay{e, len(e.writes)}, e.size }

// undo takes back writes that prepare.
func (e *Edit) undo(w Writer, writes []write, cause error) error {
	for _, wr := range slices.Backward(writes) {
		if wr.off < e.im.size {
			was := e.im.Alloc(wr.len()) // zeros, or the program header that has got the flag
			if i := (wr.off - e.im.Phoff) / e.im.PhdrSize(); i < uint64(len(e.im.Progs)) {
				e.im.EncodeProg(was, e.im.Progs[i])
			}
			if err := writeFull(w, was, wr.off); err != nil {
				return fmt.Errorf("%w; undoing it: %w", cause, err)
			}
		}
	}
	if err := w.Truncate(int64(e.im.size)); err != nil {
		return fmt.Errorf("%w; undoing it: %w", cause, err)
	}
	return cause
}

// Plan works out the edit for a change, reading what it needs and writing
// nothing. It returns nil where the file says so already, and an error where the
// file is of a kind that is not edited, is malformed, or has no place for what is new. The image
// must not be released before the edit has been applied.
func Plan(im *elfimage.Image, c Change) (*Edit, error) { return newImage(im).plan(c) }

func (im *image) plan(c Change) (*Edit, error) {
	first, after, err := Finish(im.Image)
	if err != nil {
		return nil, err
	}
	if first != nil {
		im = newImage(after)
	}
	e, err := im.planWhole(c)
	if err != nil {
		return nil, err
	}
	return first.Then(e), nil
}

// planWhole is plan for a file in which no edit was interrupted.
func (im *image) planWhole(c Change) (*Edit, error) {
	if err := im.editable(c); err != nil {
		return nil, err
	}
	c, err := c.normal()
	if err != nil {
		return nil, err
	}
	s := scratches.Get().(*scratch)
	im.scratch = s
	defer func() {
		im.all, im.scratch = nil, nil
		s.goal, s.layout = goal{}, layout{}
		s.dynamic, s.blocks, s.indices, s.offsets, s.moves = s.dynamic[:0], s.blocks[:0], s.indices[:0],
			s.offsets[:0], s.moves[:0]
		scratches.Put(s)
	}()
	g, err := im.newGoal(c)
	if g == nil || err != nil {
		return nil, err
	}
	e, err := im.planned(g, c)
	if err == nil {
		return e, nil
	}
	err = im.blame(err)
	if g.desc != "" {
		without := c
		without.ResolutionNote = new(string)
		if _, again := im.planWhole(without); again == nil {
			err = fmt.Errorf("%w: %w", ErrNoNote, err)
		}
	}
	return nil, err
}

// planned lays out, emits and verifies an edit.
func (im *image) planned(g *goal, c Change) (*Edit, error) {
	p := &planner{im: im, goal: g}
	l, err := p.layout()
	if err != nil {
		return nil, err
	}
	e, err := p.emit(l)
	if err != nil {
		return nil, err
	}
	return e, e.verified(p.im, c, claims{free: p.free})
}

// verified parses the image as the edit will leave it and compares it with the one of before. A
// mistake in a plan must not reach the file. said is what an interrupted edit claims.
func (e *Edit) verified(before *image, c Change, said claims) error {
	planned := overlay{e, len(e.writes)}
	after, err := elfimage.ParseHead(planned, e.size, nil)
	if err != nil {
		return fmt.Errorf("planned edit does not read back: %w", err)
	}
	defer after.Release()
	changed := make([]span, len(e.writes))
	for i, w := range e.writes {
		changed[i] = span{w.off, w.len()}
	}
	return verify(before, after, c, changed, said)
}

// blame tells whether the file is at fault for an edit that cannot be made: where its
// headers contradict each other, that is the error; else it is the one given.
func (im *image) blame(err error) error {
	var malformed *elfimage.FormatError
	if errors.As(err, &malformed) {
		return err
	}
	return cmp.Or(im.Contradiction(), err)
}

// editable tells what cannot be changed in this kind of file: a run path or needed
// libraries where no loader looks for any, dynamic entries where there are none.
func (im *image) editable(c Change) error {
	reason := im.SkipReason()
	switch reason {
	case "":
		return nil
	case elfimage.StaticPIE, elfimage.Loader:
		// glibc's start-up code stops at one (elf/get-dynamic-info.h); without, it goes on.
		if (c.RunPath == nil || c.RunPath.List == "") && (c.ResolutionNote == nil || *c.ResolutionNote == "") {
			return nil
		}
	case elfimage.Static, elfimage.NoDynamic, elfimage.Detached:
		if c.onlyHeader() && (c.Interpreter == nil || reason == elfimage.NoDynamic) {
			return nil
		}
	}
	if c.RunPath != nil {
		return fmt.Errorf("%s has no run path to edit", reason)
	}
	return fmt.Errorf("%s has nothing to edit", reason)
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
