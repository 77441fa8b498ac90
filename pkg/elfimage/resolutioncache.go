package elfimage

import (
	"bytes"
	"debug/elf"
	"slices"
)

// A ResolutionCache is the note that patchelf --build-resolution-cache writes (0.19, section .note.nixos.ldcache):
// where each needed library was found. A loader that obeys it reads the first such note, before DT_RUNPATH.
type ResolutionCache struct {
	Off, Size   uint64 // of the note in the file, bytes
	Prog        int    // index of the PT_NOTE with only this note and zeros after it, or -1
	Section     int    // index of the section with this note, or -1; its size may differ if Prog is not -1
	Description string // what it says: see package resolution
}

// Owner and type of a resolution cache (patchelf 0.19, src/patchelf.cc; the loader's
// reader in nixpkgs, ldcache.patch).
const (
	CacheOwner = "NixOS"
	CacheType  = 0x63a86cb6
)

// ResolutionCache returns the cache that a loader reads, or nil if there is none.
func (im *Image) ResolutionCache() (*ResolutionCache, error) {
	all, err := im.ResolutionCaches()
	if len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

// ResolutionCaches returns all notes of the cache's owner and type.
func (im *Image) ResolutionCaches() (all []ResolutionCache, err error) {
	const most = 1000
	left := uint64(maxNotes)
	for i := range im.Progs {
		p := &im.Progs[i]
		if p.Type != elf.PT_NOTE || p.Filesz > left || len(all) > most {
			continue
		}
		left -= p.Filesz
		b, padding, err := im.readNotes(p.Off, p.Filesz, p.Align)
		if err != nil {
			return nil, err
		}
		for n := range im.eachNoteIn(b, padding) {
			if string(n.owner) != CacheOwner || n.typ != CacheType {
				continue
			}
			c := ResolutionCache{Off: p.Off + n.start, Size: n.end - n.start, Prog: -1,
				Description: string(b[n.desc : n.desc+n.size])}
			if n.start == 0 && len(bytes.Trim(b[n.end:], "\x00")) == 0 {
				c.Prog = i
			}
			c.Section = slices.IndexFunc(im.Sections, func(s Section) bool {
				return s.Type == elf.SHT_NOTE && s.Off == c.Off && (s.Size == c.Size || c.Prog >= 0)
			})
			all = append(all, c)
		}
	}
	return all, nil
}
