package elfedit

import (
	"cmp"
	"debug/elf"
	"math"
	"slices"

	"cuda-runpath/pkg/elfimage"
)

// A trailer is what comes after the last segment: sections that are not loaded,
// the section headers, and what somebody appended to the file.
type trailer struct {
	sections []elfimage.Section // with their new places
	moving   []int              // indices of those that move along, by offset
	names    string             // that those of sections get, with their NULs
	tailOff  uint64             // where appended data begins now
	tail     uint64             // its size, bytes
	zeros    uint64             // with which it begins and which its copy leaves out, bytes
}

const maxMoving = 64 << 10 // sections that move along, bytes in all

// Room for strings in a file with appended data: a part of that, but no more than any file
// needs. It is bytes, as maxTailRoom is.
const (
	tailPart    = 64
	maxTailRoom = 256 << 10
)

// trailer describes what has to follow a segment that is to end the file, with the
// sections that come after offset end now.
func (p *planner) trailer(end uint64) (*trailer, error) {
	im := p.im
	sections := im.CopySections(im.Sections, 4) // some may be added: see anchor, hold and nameNote
	t := &trailer{sections: sections, tailOff: im.imageEnd()}
	left := uint64(maxMoving)
	for i := range im.Sections {
		s := &im.Sections[i]
		// patchelf insists on a section after the string table in an ET_EXEC file
		// (rewriteSectionsExecutable), so the section names go with the headers.
		names := i == int(im.Shstrndx) && s.Type == elf.SHT_STRTAB
		if (names || s.Off >= end) && s.HasBytes() && s.Flags&elf.SHF_ALLOC == 0 && s.Addralign <= 64 &&
			s.Size <= min(left, im.size) && s.Off <= im.size-s.Size {
			t.moving = append(t.moving, i)
			left -= s.Size
		}
	}
	slices.SortFunc(t.moving, func(i, j int) int { return cmp.Compare(im.Sections[i].Off, im.Sections[j].Off) })
	first, err := im.firstData(t.tailOff, im.size-t.tailOff)
	if err != nil {
		return nil, err
	}
	if first < im.size {
		t.tail = im.size - t.tailOff
		// File systems begin with up to 64 KiB of zeros, and who finds one by where the
		// section headers end wants them. A hole of gigabytes is nobody's beginning.
		const most = 1 << 20
		t.zeros = (first - t.tailOff) - min(first-t.tailOff, most)
	}
	return t, nil
}

// capacity is the size of the room for strings, in bytes: each growth copies the appended data again.
func (t *trailer) capacity(blob string) uint64 {
	if t.tail == 0 {
		return roomFor(len(blob))
	}
	return max(roomFor(len(blob)), elfimage.PageSize, min(t.tail/tailPart, maxTailRoom))
}

// write lays the trailer out after offset end. What it returns follows end directly;
// appended data comes as a copy, so that it is found from its old offset as well as
// from the end.
func (t *trailer) write(im *image, l *layout, end uint64) ([]write, error) {
	at := end
	for _, i := range t.moving {
		s := &t.sections[i]
		s.Off = alignUp(at, s.Addralign)
		if i == int(im.Shstrndx) {
			s.Size += uint64(len(t.names))
		}
		at = s.Off + s.Size
	}
	l.sections = t.sections
	if len(t.sections) > 0 {
		l.shoff = alignUp(at, 8)
		at = l.shoff + uint64(len(t.sections))*im.ShdrSize()
	}
	data := im.Alloc(at - end)
	for _, i := range t.moving {
		s := &t.sections[i]
		old := &im.Sections[i]
		if err := elfimage.ReadFull(im, data[s.Off-end:][:old.Size], old.Off); err != nil {
			return nil, err
		}
		copy(data[s.Off-end:][old.Size:s.Size], t.names) // of their table only
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
