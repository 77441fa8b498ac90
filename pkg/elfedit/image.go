package elfedit

import (
	"debug/elf"
	"slices"

	"cuda-runpath/pkg/elfimage"
)

// image is the file that is edited, with what only an editor asks of it.
type image struct {
	*elfimage.Image
	size uint64 // of the file, bytes
	// said are the section headers as the file has them. Sections are those that an edit begins
	// with: see takeBack.
	said  []elfimage.Section
	taken bool     // the two differ
	room  room     // the last one in the string table, once looked for; of size 0 where there is none
	all   []extent // once looked for; see extents

	lookedForRoom bool
	strings       int // 2 + StringSection, or 0 before that was asked
	interp        int // 2 + interpSection, likewise
}

func newImage(im *elfimage.Image) *image {
	x := &image{Image: im, size: uint64(im.Size()), said: im.Sections}
	x.takeBack()
	return x
}

// takeBack lets section headers that are ahead of .dynamic say where the tables are that it
// points to: an edit that was stopped between the two had copied them elsewhere. What the
// loader reads counts, and the next edit begins there.
func (im *image) takeBack() {
	n := len(im.said)
	for n > 0 && isCover(&im.said[n-1]) {
		n--
	}
	im.taken, im.Sections = n < len(im.said), im.said[:n]
	for i := range im.Sections {
		s := im.said[i]
		for _, table := range elfimage.TableSections {
			if s.Type != table.Type || s.Flags&elf.SHF_ALLOC == 0 || table.Tag == elf.DT_STRTAB && i != im.StringSection() {
				continue
			}
			d, ok := im.Dyn(table.Tag)
			size := s.Size
			if table.Tag == elf.DT_STRTAB {
				size = im.StrSize
			}
			off, mapped := im.FileOffset(d.Val, size)
			if !ok || !mapped || d.Val == s.Addr {
				continue
			}
			if &im.Sections[0] == &im.said[0] {
				im.taken, im.Sections = true, slices.Clone(im.Sections)
			}
			now := &im.Sections[i]
			now.Off, now.Addr, now.Size = off, d.Val, size
		}
	}
	if anchor := im.anchorSection(); im.taken && anchor >= 0 {
		im.Sections[anchor].Size = 0
	}
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

func pick(long bool, a, b uint64) uint64 {
	if long {
		return a
	}
	return b
}
