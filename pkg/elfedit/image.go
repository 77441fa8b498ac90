package elfedit

import (
	"bytes"
	"sync"

	"cuda-runpath/pkg/elfimage"
)

// image is the file that is edited, with what only an editor asks of it.
type image struct {
	*elfimage.Image
	size  uint64           // of the file, bytes
	room  span             // the last one in the string table, once looked for; of size 0 where there is none
	all   []extent         // once looked for; see extents
	owner []elfimage.Owner // likewise; see owned
	table []byte           // the dynamic string table, once read

	scratch *scratch // of the plan that is made, or nil

	lookedForRoom bool
	strings       int // 2 + StringSection, or 0 before that was asked
	interp        int // 2 + interpSection, likewise
}

func newImage(im *elfimage.Image) *image {
	return &image{Image: im, size: uint64(im.Size())}
}

// scratch is memory of a plan in the making, for the next one: nothing of an [Edit] is in it. A page that a run
// of a thousand edits asks the kernel for takes as long as two writes.
type scratch struct {
	goal    goal
	layout  layout // the last one that was tried
	extents []extent
	entries []entry
	blocks  []block // those of all tries
	indices []int   // of what is in them
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// work returns the memory of the plan.
func (im *image) work() *scratch {
	if im.scratch == nil {
		im.scratch = new(scratch)
	}
	return im.scratch
}

// take returns room for n more elements, after those that are in use.
func take[T any](all *[]T, n int) []T {
	at := len(*all)
	if n > cap(*all)-at {
		*all, at = make([]T, 0, max(2*n, 2*cap(*all), 16)), 0
	}
	*all = (*all)[:at+n]
	return (*all)[at : at : at+n]
}

// owned is Owners, looked for once. The headers must not change afterwards.
func (im *image) owned() []elfimage.Owner {
	if im.owner == nil {
		im.owner = im.Owners()
	}
	return im.owner
}

// hasDynamic reports whether the dynamic section has been read.
func (im *image) hasDynamic() bool { return im.DynCap > 0 }

// StringSection is elfimage's, looked for once.
func (im *image) StringSection() int {
	if im.strings == 0 {
		im.strings = 2 + im.Image.StringSection()
	}
	return im.strings - 2
}

// sectionNamed reports whether section i has that name, whatever the length of the one
// that it has.
func (im *image) sectionNamed(i int, name string) bool {
	return im.nameAt(im.Sections[i].NameOff, name)
}

// nameAt reports whether a name of sections is at an offset of their table.
func (im *image) nameAt(at uint32, name string) bool {
	if int(im.Shstrndx) >= len(im.Sections) {
		return false
	}
	t := &im.Sections[im.Shstrndx]
	off, n := uint64(at), uint64(len(name)+1)
	if !t.InFile() || t.Size < n || off > t.Size-n || t.Off > im.size {
		return false
	}
	b, err := im.Read(t.Off+off, n)
	return err == nil && string(b) == name+"\x00"
}

// readTable reads the dynamic string table, which a new place needs whole.
func (im *image) readTable() (_ []byte, err error) {
	if im.table == nil {
		im.table, err = im.Read(im.StrOff, im.StrSize)
	}
	return im.table, err
}

// stringStart returns the offset after the last NUL before off.
func (im *image) stringStart(off uint64) (uint64, error) {
	for end := off; end > 0; {
		start := end - min(end, 512)
		b, err := im.Read(im.StrOff+start, end-start)
		if err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(b, 0); i >= 0 {
			return start + uint64(i) + 1, nil
		}
		end = start
	}
	return 0, nil
}

// zeros reports whether n bytes at off are all zero.
func (im *image) zeros(off, n uint64) (bool, error) {
	first, err := im.firstData(off, n)
	return first == off+n, err
}

// firstData returns the offset of the first of n bytes at off that is not zero, or off+n.
func (im *image) firstData(off, n uint64) (uint64, error) {
	size := min(n, 64<<10)
	buf := make([]byte, size)
	end := off + n
	for off < end {
		if off = im.NextData(off); off >= end {
			break
		}
		b := buf[:min(end-off, uint64(len(buf)))]
		if err := elfimage.ReadFull(im, b, off); err != nil {
			return 0, err
		}
		if rest := bytes.TrimLeft(b, "\x00"); len(rest) > 0 {
			return off + uint64(len(b)-len(rest)), nil
		}
		off += uint64(len(b))
	}
	return end, nil
}
