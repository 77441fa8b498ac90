package elfimage

import (
	"debug/elf"
	"slices"
	"strings"
)

// A ResolutionCache is the note that patchelf --build-resolution-cache writes (0.19,
// section .note.nixos.ldcache): where each needed library was found. A loader that
// obeys it reads it before DT_RUNPATH.
type ResolutionCache struct {
	Off, Size uint64 // of the note in the file, bytes
	Prog      int    // index of the PT_NOTE that is this note and nothing else, or -1
	Section   int    // index of the section that is, or -1
	Entries   []CacheEntry
}

// A CacheEntry is what the cache says of a needed library: paths, each "=FILE" or
// "?DIRECTORY".
type CacheEntry struct {
	Needed string
	Paths  []string
}

const (
	cacheOwner = "NixOS"
	cacheType  = 0x63a86cb6
)

// ResolutionCache returns the cache, or nil where there is none.
func (im *Image) ResolutionCache() (*ResolutionCache, error) {
	look := func(off, size, align uint64) (*ResolutionCache, error) {
		b, padding, err := im.readNotes(off, size, align)
		if err != nil {
			return nil, err
		}
		for n := range im.eachNoteIn(b, padding) {
			if string(n.owner) != cacheOwner || n.typ != cacheType {
				continue
			}
			c := &ResolutionCache{Off: off + n.start, Size: n.end - n.start, Prog: -1, Section: -1}
			desc := b[n.desc : n.desc+n.size]
			texts := strings.Split(strings.TrimRight(string(desc), "\x00"), "\x00")
			for i := 0; i+1 < len(texts); i += 2 {
				c.Entries = append(c.Entries, CacheEntry{texts[i], strings.Split(texts[i+1], ":")})
			}
			return c, nil
		}
		return nil, nil
	}
	for _, p := range im.Progs {
		if p.Type != elf.PT_NOTE {
			continue
		}
		c, err := look(p.Off, p.Filesz, p.Align)
		if err != nil || c == nil {
			if err != nil {
				return nil, err
			}
			continue
		}
		c.Prog = slices.IndexFunc(im.Progs, func(p Prog) bool { return p.Type == elf.PT_NOTE && p.Off == c.Off && p.Filesz == c.Size })
		c.Section = slices.IndexFunc(im.Sections, func(s Section) bool { return s.Type == elf.SHT_NOTE && s.Off == c.Off && s.Size == c.Size })
		return c, nil
	}
	return nil, nil
}
