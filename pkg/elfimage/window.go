package elfimage

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// window is a reader that keeps the last block that it read, or all blocks of a small file. So the many small reads
// of a parse, a string here and a header there, cost few system calls.
type window struct {
	r    io.ReaderAt
	size uint64
	head []byte // the first bytes of the file
	off  uint64
	buf  []byte
	most uint64   // size of a block, windowSize at most
	held bool     // buf is the whole file, as far as loaded says
	own  *buffers // buf is a part of it

	loaded uint64 // if held: a bit for each page of buf that has been read
}

// bytes: the structures at the end of a small library, mostly; copying more costs more than it saves
const windowSize = 8 << 10

// buffers are used again by one image after another. Otherwise a tool that looks at thousands of small files would
// spend its time in the memory allocator.
type buffers struct {
	block    [windowSize]byte
	text     [256]byte // a string
	whole    []byte    // a small file
	head     [HeadSize]byte
	piece    []byte // see EachPiece
	bytes    []byte // see Alloc
	ofProgs  []Prog // see CopyProgs
	ofSects  []Section
	progs    []Prog
	sections []Section
	dynamic  []Dyn
	versions []Version
	owners   []Owner

	// A small file gets these sizes, because an allocation of another size costs two page faults.
	firstPiece   [4096]byte
	firstProgs   [16]Prog
	firstDynamic [48]Dyn
}

func newBuffers() any {
	b := new(buffers)
	b.piece, b.progs, b.dynamic = b.firstPiece[:], b.firstProgs[:0], b.firstDynamic[:0]
	return b
}

var free = sync.Pool{New: newBuffers}

// spare returns the buffers that the image may use.
func (w *window) spare() *buffers {
	if w.own == nil {
		w.own = free.Get().(*buffers)
	}
	return w.own
}

// Alloc returns n zeros to write to, for use until the image is released. Edits of a thousand
// small files in one run take a seventh less time than with memory of their own.
func (w *window) Alloc(n uint64) []byte {
	own, at := w.spare(), uint64(len(w.spare().bytes))
	if n > uint64(cap(own.bytes))-at { // whoever uses the old memory keeps it
		own.bytes, at = make([]byte, 0, max(n, 2*uint64(cap(own.bytes)), 4<<10)), 0
	}
	own.bytes = own.bytes[:at+n]
	b := own.bytes[at : at+n : at+n]
	clear(b)
	return b
}

// CopyProgs returns a copy of program headers with room for more of them, for use until the image is released.
func (w *window) CopyProgs(progs []Prog, more int) []Prog {
	return lent(&w.spare().ofProgs, progs, more)
}

// CopySections returns a copy of section headers with room for more of them, for use until the image is released.
func (w *window) CopySections(sections []Section, more int) []Section {
	return lent(&w.spare().ofSects, sections, more)
}

// lent is Alloc for a copy of values other than bytes.
func lent[T any](own *[]T, of []T, more int) []T {
	at, n := len(*own), len(of)+more
	if n > cap(*own)-at {
		*own, at = make([]T, 0, max(4*n, 2*cap(*own))), 0
	}
	*own = (*own)[:at+n]
	return append((*own)[at:at:at+n], of...)
}

// reuse returns a slice of n elements in the memory of an earlier image's, or else in new memory, which it remembers.
// The caller sets every element. Appending to it never writes to shared memory, because the slice has no spare room.
func reuse[T any](old *[]T, n int) []T {
	if cap(*old) < n {
		*old = make([]T, n)
	}
	return (*old)[:n:n]
}

// Release hands the image's buffers to the next one that is parsed. It need not
// be called; after it the image must not be used any more.
func (im *Image) Release() {
	if im.own != nil {
		im.own.bytes, im.own.ofProgs, im.own.ofSects = im.own.bytes[:0], im.own.ofProgs[:0], im.own.ofSects[:0]
		free.Put(im.own)
	}
	im.window, im.Progs, im.Sections, im.Dynamic = window{size: im.size}, nil, nil, nil
}

// Read returns n bytes of the file, which the caller must not change, for use until
// the image is released.
func (im *Image) Read(off, n uint64) ([]byte, error) {
	if b, ok := im.view(off, n); ok {
		return b, nil
	}
	b := make([]byte, n)
	return b, ReadFull(im, b, off)
}

// view is Read if that takes no memory.
func (w *window) view(off, n uint64) ([]byte, bool) {
	switch {
	case off > w.size || n > w.size-off:
	case off+n <= uint64(len(w.head)):
		return w.head[off : off+n : off+n], true
	case w.held && w.load(off, n) == nil:
		return w.buf[off : off+n : off+n], true
	}
	return nil, false
}

// EachPiece reads n entries of size bytes each from off on and calls do for some of them
// at a time, with their offset: a symbol table can have millions.
func (im *Image) EachPiece(off, n, size uint64, do func(off uint64, entries []byte)) error {
	if b, ok := im.view(off, n*size); ok {
		do(off, b)
		return nil
	}
	own := im.spare()
	buf := own.piece
	if own.piece = nil; n*size > 8*uint64(len(buf)) || buf == nil { // nil: do calls EachPiece
		buf = make([]byte, min(n, 4096)*size)
	}
	defer func() { own.piece = buf }()
	for most := uint64(len(buf)) / size; n > 0; {
		b := buf[:min(n, most)*size]
		if err := ReadFull(im, b, off); err != nil {
			return err
		}
		do(off, b)
		off, n = off+uint64(len(b)), n-uint64(len(b))/size
	}
	return nil
}

func newWindow(r io.ReaderAt, size uint64, head []byte) window {
	return window{r: r, size: size, head: head, most: windowSize}
}

// ReadAt reads from the file; see [io.ReaderAt].
func (w *window) ReadAt(p []byte, at int64) (int, error) {
	off, n := uint64(at), uint64(len(p))
	if at < 0 || off > w.size {
		return 0, io.EOF
	}
	switch {
	case off+n <= uint64(len(w.head)):
		return copy(p, w.head[off:]), nil
	case w.held && off+n <= w.size:
		if err := w.load(off, n); err != nil {
			return 0, err
		}
		return copy(p, w.buf[off:]), nil
	case off >= w.off && off+n <= w.off+uint64(len(w.buf)):
		return copy(p, w.buf[off-w.off:]), nil
	case n > w.most/2 || off+n > w.size:
		return w.r.ReadAt(p, at)
	}
	// Blocks begin at pages, or halves of them. The last one ends with the file, because what else a parse reads,
	// .dynamic most of all, is before the section headers at the end.
	start := off &^ (w.most/2 - 1)
	if start+w.most > w.size {
		start = max(w.size, w.most) - w.most
	}
	buf := w.spare().block[:min(w.most, w.size-start)]
	w.buf = w.buf[:0]
	if err := ReadFull(w.r, buf, start); err != nil {
		return 0, err
	}
	w.off, w.buf = start, buf
	return copy(p, buf[off-start:]), nil
}

// wholeSize is the size in bytes up to which everything read of a file is kept. Whoever looks at a small file, a plan
// most of all, reads most of its tables, and some of them again.
const wholeSize = 64 * PageSize // loaded has a bit for each page

// hold keeps what is read of a small file from now on, so that it is read once. Only the head has been read.
func (w *window) hold() {
	if w.size > wholeSize {
		return
	}
	w.buf, w.held = reuse(&w.spare().whole, int(w.size)), true
	n := uint64(copy(w.buf, w.head))
	for off := uint64(0); off < n && (off+PageSize <= n || n == w.size); off += PageSize {
		w.loaded |= 1 << (off / PageSize)
	}
}

// load reads the pages of a kept file that hold n bytes and have not been read.
func (w *window) load(off, n uint64) error {
	end := off + n
	for page := off / PageSize; page*PageSize < end; page++ {
		if w.loaded&(1<<page) != 0 {
			continue
		}
		from, to := page*PageSize, page*PageSize
		for to < w.size && w.loaded&(1<<(to/PageSize)) == 0 && to < end {
			to += PageSize
		}
		if err := ReadFull(w.r, w.buf[from:min(to, w.size)], from); err != nil {
			return err
		}
		for ; page*PageSize < to; page++ {
			w.loaded |= 1 << page
		}
	}
	return nil
}

// NextData returns the lowest offset, not below off, that is in no hole of the file, or the file's size. It returns
// off if the reader cannot tell. A hole reads as zeros.
func (w *window) NextData(off uint64) uint64 {
	if s, ok := w.r.(interface{ NextData(off int64) int64 }); ok && !w.held {
		return min(max(off, uint64(s.NextData(int64(off)))), max(off, w.size))
	}
	return off
}

// ReadFull fills b from offset off.
func ReadFull(r io.ReaderAt, b []byte, off uint64) error {
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
	b, err := im.text(off, limit)
	return string(b), err
}

// text is cstring in memory that the next read may overwrite.
func (im *Image) text(off, limit uint64) ([]byte, error) {
	limit = min(limit, im.size)
	for b := im.spare().text[:]; off < limit; b = make([]byte, 4*len(b)) {
		b = b[:min(uint64(len(b)), limit-off)]
		if err := ReadFull(im, b, off); err != nil {
			return nil, err
		}
		if i := bytes.IndexByte(b, 0); i >= 0 {
			return b[:i], nil
		}
		if uint64(len(b)) == limit-off {
			break
		}
	}
	return nil, Malformed(off, "unterminated string")
}
