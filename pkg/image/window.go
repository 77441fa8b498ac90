package image

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// window is a reader that keeps the last block it read, so that the many small
// reads of a parse (a string here, a header there) cost few system calls.
type window struct {
	r    io.ReaderAt
	size uint64
	head []byte // the first bytes of the file
	off  uint64
	buf  []byte
	own  *buffers // what buf is a part of
}

const windowSize = 8 << 10 // bytes: the structures at the end of a small library, mostly; copying more costs more than it saves

// buffers are used again by one image after another: a tool that looks at
// thousands of small files would otherwise spend its time in the memory allocator.
type buffers struct {
	block    [windowSize]byte
	table    []byte
	progs    []Prog
	sections []Section
	dynamic  []Dyn
}

var free = sync.Pool{New: func() any { return new(buffers) }}

func (w *window) buffers() *buffers {
	if w.own == nil {
		w.own = free.Get().(*buffers)
	}
	return w.own
}

// spare returns the buffers that the image may use.
func (im *Image) spare() *buffers {
	if w, ok := im.r.(*window); ok {
		return w.buffers()
	}
	return &buffers{}
}

// reuse returns a slice of n elements in the memory of an earlier image's, or else
// in new memory, which it remembers. The caller sets every element. There is no
// room behind the slice, so that appending to it never writes to what is shared.
func reuse[T any](old *[]T, n int) []T {
	if cap(*old) < n {
		*old = make([]T, n)
	}
	return (*old)[:n:n]
}

// Release hands the image's buffers to the next one that is parsed. It need not
// be called; after it the image must not be used any more.
func (im *Image) Release() {
	if w, ok := im.r.(*window); ok && w.own != nil {
		free.Put(w.own)
		w.own, w.buf = nil, nil
	}
	im.r, im.Progs, im.Sections, im.Dynamic = nil, nil, nil, nil
}

// scratch returns n bytes that the next call of scratch overwrites.
func (im *Image) scratch(n uint64) []byte {
	w, ok := im.r.(*window)
	if !ok || n > 4*windowSize {
		return make([]byte, n)
	}
	own := w.buffers()
	if uint64(cap(own.table)) < n {
		own.table = make([]byte, max(n, 4096))
	}
	return own.table[:n]
}

func newWindow(r io.ReaderAt, size uint64, head []byte) *window {
	return &window{r: r, size: size, head: head}
}

func (w *window) ReadAt(p []byte, at int64) (int, error) {
	off, n := uint64(at), uint64(len(p))
	switch {
	case off+n <= uint64(len(w.head)):
		return copy(p, w.head[off:]), nil
	case off >= w.off && off+n <= w.off+uint64(len(w.buf)):
		return copy(p, w.buf[off-w.off:]), nil
	case n > windowSize/2 || off+n > w.size:
		return w.r.ReadAt(p, at)
	}
	// Blocks begin at pages, and the last one ends where the file does: before the
	// section headers there lies what else a parse reads, .dynamic most of all.
	start := off &^ (windowSize/2 - 1)
	if start+windowSize > w.size {
		start = max(w.size, windowSize) - windowSize
	}
	if w.buf == nil {
		w.buf = w.buffers().block[:0]
	}
	buf := w.buf[:min(windowSize, w.size-start)]
	w.buf = w.buf[:0]
	if err := readFull(w.r, buf, start); err != nil {
		return 0, err
	}
	w.off, w.buf = start, buf
	return copy(p, buf[off-start:]), nil
}

// readFull fills b from offset off.
func readFull(r io.ReaderAt, b []byte, off uint64) error {
	n, err := r.ReadAt(b, int64(off))
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("reading %d bytes at offset %#x: %w", len(b), off, err)
}

// cstring returns the NUL-terminated string at off, which must end before limit
// (both offsets in the file).
func (im *Image) cstring(off, limit uint64) (string, error) {
	var out []byte
	limit = min(limit, im.size)
	for step := uint64(256); off < limit; step *= 2 {
		b := make([]byte, min(step, limit-off))
		if err := readFull(im.r, b, off); err != nil {
			return "", err
		}
		if i := bytes.IndexByte(b, 0); i >= 0 {
			return string(append(out, b[:i]...)), nil
		}
		out = append(out, b...)
		off += uint64(len(b))
	}
	return "", malformed(off-uint64(len(out)), "unterminated string")
}
