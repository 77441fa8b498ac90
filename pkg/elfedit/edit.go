package elfedit

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"cuda-runpath/pkg/elfimage"
)

// An Edit is the writes for a Change. Those that make the file longer come first. The order of the others guarantees
// nothing to a reader.
type Edit struct {
	im     *image
	writes []write
	size   int64 // of the file afterwards
	moved  []string
}

// A write is data at an offset, or if data is nil a copy of n bytes from another offset of the same file.
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

// A Writer is the file that Apply writes to, which is the one that the image was parsed from. Truncate takes a size
// in bytes, as (*os.File).Truncate does.
type Writer interface {
	io.WriterAt
	Truncate(size int64) error
}

// MovedNotes names the sections of notes that had to move although their owners may rely on their place.
func (e *Edit) MovedNotes() []string { return e.moved }

// Growth returns how many bytes larger the file becomes.
func (e *Edit) Growth() int64 { return e.size - int64(e.im.size) }

// A DamagedError is the error of Apply if the file is neither what it was nor what it should become.
type DamagedError struct{ Err error }

func (e *DamagedError) Error() string {
	return "is damaged, because only a part of an edit was written: " + e.Err.Error()
}

// Unwrap returns why a write failed.
func (e *DamagedError) Unwrap() error { return e.Err }

// Apply performs the writes. If one fails while the file grows, the file gets its old length back and is unchanged.
// If a later one fails, the error is a *DamagedError.
func (e *Edit) Apply(w Writer) error {
	to := &counting{Writer: w, end: int64(e.im.size)}
	for _, wr := range e.writes {
		err := e.perform(to, wr)
		if err == nil {
			continue
		}
		if to.changed {
			return &DamagedError{err}
		}
		if back := w.Truncate(to.end); back != nil {
			return fmt.Errorf("%w; taking back what was appended: %w", err, back)
		}
		return err
	}
	return nil
}

// counting notes whether anything was written before the file's old end.
type counting struct {
	Writer
	end     int64
	changed bool
}

func (c *counting) WriteAt(b []byte, off int64) (int, error) {
	n, err := c.Writer.WriteAt(b, off)
	c.changed = c.changed || n > 0 && off < c.end
	return n, err
}

func (e *Edit) perform(w Writer, wr write) error {
	if wr.data != nil {
		return writeFull(w, wr.data, wr.off)
	}
	buf := make([]byte, min(wr.n, 1<<20))
	for done := uint64(0); done < wr.n; {
		// a hole stays one, because the copy goes after the end of the file
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
func (e *Edit) Planned() (io.ReaderAt, int64) { return overlay{e}, e.size }

// Plan works out the edit for a change. It reads what it needs and writes nothing. It returns nil if the file is
// already as asked. The error says that files of this kind are not edited, that the file is malformed, or that it has
// no place for what is new. The image must not be released before the edit has been applied.
func Plan(im *elfimage.Image, c Change) (*Edit, error) { return newImage(im).plan(c) }

func (im *image) plan(c Change) (*Edit, error) {
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
	if err != nil {
		return nil, im.blame(err)
	}
	return e, nil
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
	return e, e.verified(p.im, c)
}

// verified parses the image as the edit will leave it and compares it with the old one. A mistake in a plan must not
// reach the file.
func (e *Edit) verified(before *image, c Change) error {
	planned := overlay{e}
	after, err := elfimage.ParseHead(planned, e.size, nil)
	if err != nil {
		return fmt.Errorf("planned edit does not read back: %w", err)
	}
	defer after.Release()
	changed := make([]span, len(e.writes))
	for i, w := range e.writes {
		changed[i] = span{w.off, w.len()}
	}
	return verify(before, after, c, changed)
}

// blame returns the error for an edit that cannot be made. If the file's headers contradict each other, that is the
// error; else it is the given one.
func (im *image) blame(err error) error {
	var malformed *elfimage.FormatError
	if errors.As(err, &malformed) {
		return err
	}
	return cmp.Or(im.Contradiction(), err)
}

// editable says what cannot be changed in this kind of file: a run path or needed libraries if no loader looks for
// them, dynamic entries if there are none.
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

// overlay shows a file as it will be after the writes.
type overlay struct{ e *Edit }

func (o overlay) ReadAt(b []byte, at int64) (int, error) {
	off, end := uint64(at), uint64(at)+uint64(len(b))
	if off < o.e.im.size {
		if err := elfimage.ReadFull(o.e.im, b[:min(uint64(len(b)), o.e.im.size-off)], off); err != nil {
			return 0, err
		}
	}
	clear(b[min(uint64(len(b)), max(o.e.im.size, off)-off):])
	for _, w := range o.e.writes {
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
