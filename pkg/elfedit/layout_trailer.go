package elfedit

import (
	"debug/elf"
	"math"

	"cuda-runpath/pkg/elfimage"
)

// A trailer is what comes after the last segment: the section headers with their names, and what somebody appended to
// the file.
type trailer struct {
	sections []elfimage.Section // at their new places
	moving   int                // index of the section names, if they move along; -1: they stay
	names    string             // added to the section names, with their NULs
	tailOff  uint64             // where appended data begins now
	tail     uint64             // its size, bytes
	zeros    uint64             // at its beginning that its copy leaves out, bytes
}

const maxMoving = 64 << 10 // section names that move along, bytes

// Room for strings in a file with appended data, in bytes like maxTailRoom: a part of that data, but no more than any
// file needs.
const (
	tailPart    = 64
	maxTailRoom = 256 << 10
)

// trailer describes what must follow a layout's segment at the end of the file.
func (p *planner) trailer(l *layout) (*trailer, error) {
	im := p.im
	l.sections = im.CopySections(l.sections, 4) // some may be added: see anchor, hold and nameNote
	t := &trailer{sections: l.sections, moving: -1, tailOff: im.imageEnd()}
	// patchelf wants a section after the string table in an ET_EXEC file (rewriteSectionsExecutable), so the section
	// names go with the headers.
	if i := int(im.Shstrndx); i < len(im.Sections) {
		s := &im.Sections[i]
		if s.Type == elf.SHT_STRTAB && s.HasBytes() && s.Flags&elf.SHF_ALLOC == 0 && s.Addralign <= 64 &&
			s.Size <= min(maxMoving, im.size) && s.Off <= im.size-s.Size {
			t.moving = i
		}
	}
	first, err := im.firstData(t.tailOff, im.size-t.tailOff)
	if err != nil {
		return nil, err
	}
	if first < im.size {
		t.tail = im.size - t.tailOff
		// File systems begin with up to 64 KiB of zeros. Readers that find one by the end of the section headers need
		// these. Nothing begins with a hole of gigabytes.
		const most = 1 << 20
		t.zeros = (first - t.tailOff) - min(first-t.tailOff, most)
	}
	return t, nil
}

// capacity is the size of the room for strings, in bytes. Each growth copies the appended data again.
func (t *trailer) capacity(blob string) uint64 {
	if t.tail == 0 {
		return roomFor(len(blob))
	}
	return max(roomFor(len(blob)), elfimage.PageSize, min(t.tail/tailPart, maxTailRoom))
}

// write lays the trailer out after offset end, and what it returns follows end directly. Appended data is copied, so
// that it is found from its old offset and from the end.
func (t *trailer) write(im *image, l *layout, end uint64) ([]write, error) {
	at := end
	if t.moving >= 0 {
		s := &t.sections[t.moving]
		s.Off = alignUp(at, s.Addralign)
		s.Size += uint64(len(t.names))
		at = s.Off + s.Size
	}
	l.sections = t.sections
	if len(t.sections) > 0 {
		l.shoff = alignUp(at, 8)
		at = l.shoff + uint64(len(t.sections))*im.ShdrSize()
	}
	data := im.Alloc(at - end)
	if t.moving >= 0 {
		s, old := &t.sections[t.moving], &im.Sections[t.moving]
		if err := elfimage.ReadFull(im, data[s.Off-end:][:old.Size], old.Off); err != nil {
			return nil, err
		}
		copy(data[s.Off-end:][old.Size:s.Size], t.names)
	}
	if len(t.sections) > 0 {
		im.encodeSections(data[l.shoff-end:], t.sections)
	}
	out := []write{{off: end, data: data}}
	if t.tail > 0 {
		out = append(out, write{off: at, from: t.tailOff + t.zeros, n: t.tail - t.zeros})
	}
	l.size = at + t.tail - t.zeros
	if !im.Is64() && l.size > math.MaxUint32 {
		return nil, cannot("the file would exceed 4 GiB")
	}
	return out, nil
}
