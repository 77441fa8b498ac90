package elfimage

import (
	"debug/elf"
	"slices"
)

// Version is a symbol version that a file defines, or needs of a library.
type Version struct {
	Library string // that is to define it, as DT_NEEDED names it; "" for a definition
	Name    string
	Hash    uint32 // of the name, as the file has it
	Weak    bool   // VER_FLG_WEAK: the loader continues without it

	library, name uint32 // offsets in the string table
	index         uint16 // in DT_VERSYM: vna_other or vd_ndx
	base          bool   // VER_FLG_BASE: names the file, and is no version of a symbol
}

// VER_FLG_BASE and VER_FLG_WEAK.
const (
	verFlagBase = 1
	verFlagWeak = 2
)

// Bounds for files made to keep us busy: records, and bytes of a name. glibc, of
// all files, has some forty records.
const (
	maxVersions    = 1 << 14
	maxVersionName = 1 << 10
)

// VersionsNeeded returns what DT_VERNEED asks for (LSB, "Symbol Versioning").
func (im *Image) VersionsNeeded() ([]Version, error) {
	d, ok := im.Dyn(elf.DT_VERNEED)
	if !ok {
		return nil, nil
	}
	own := im.spare()
	out := own.versions[:0]
	var library uint32
	err := im.verneed(d, min(im.size/16, maxVersions), func(_ uint64, need []byte) {
		library = im.Order.Uint32(need[verneedFile:])
	}, func(_ uint64, aux []byte) {
		out = append(out, Version{Hash: im.Order.Uint32(aux), Weak: im.Order.Uint16(aux[4:])&verFlagWeak != 0,
			library: library, name: im.Order.Uint32(aux[vernauxName:]), index: im.Order.Uint16(aux[6:])})
	})
	own.versions = out
	if err != nil {
		return nil, err
	}
	out = slices.Clone(out)
	return out, im.nameVersions(out)
}

// VersionsDefined returns what DT_VERDEF defines; ok is false where there is none,
// and the loader then takes the library to have every version.
func (im *Image) VersionsDefined() (out []Version, ok bool, err error) {
	d, ok := im.Dyn(elf.DT_VERDEF)
	if !ok {
		return nil, false, nil
	}
	// The first name is the version's own, the others are those of its predecessors.
	first := false
	err = im.verdef(d, min(im.size/16, maxVersions), func(_ uint64, def []byte) {
		out, first = append(out, Version{Hash: im.Order.Uint32(def[8:]), index: im.Order.Uint16(def[4:]),
			base: im.Order.Uint16(def[2:])&verFlagBase != 0}), true
	}, func(_ uint64, aux []byte) {
		if first {
			out[len(out)-1].name, first = im.Order.Uint32(aux), false
		}
	})
	if err != nil {
		return nil, true, err
	}
	return out, true, im.nameVersions(out)
}

// nameVersions reads the names, once all records are read: the two are in different places.
func (im *Image) nameVersions(versions []Version) (err error) {
	str := func(off uint32) (string, error) {
		at := im.StrOff + uint64(off)
		return im.cstring(at, min(at+maxVersionName, im.StrOff+im.StrSize))
	}
	for i := range versions {
		v := &versions[i]
		if v.Name, err = str(v.name); err != nil {
			return err
		}
		if v.library == 0 {
			continue
		}
		if i > 0 && versions[i-1].library == v.library {
			v.Library = versions[i-1].Library
		} else if v.Library, err = str(v.library); err != nil {
			return err
		}
	}
	return nil
}

// Records of the version tables (LSB, "Symbol Versioning"; the same in both classes):
// their sizes and where fields stand in them, in bytes.
const (
	verneedSize, verneedFile, verneedAux, verneedNext = 16, 4, 8, 12
	vernauxSize, vernauxName, vernauxNext             = 16, 8, 12
	verdefSize, verdefAux, verdefNext                 = 20, 12, 16
	verdauxSize, verdauxName, verdauxNext             = 8, 0, 4
)

// verneed calls need for each Verneed record of DT_VERNEED and aux for each Vernaux
// of it, with their addresses. The loader follows vn_next and vna_next and does not
// look at the counts (glibc elf/dl-version.c); there may be budget records in all.
func (im *Image) verneed(d Dyn, budget uint64, need, aux func(addr uint64, b []byte)) error {
	return im.chain(d, d.Val, verneedSize, verneedNext, &budget, func(at uint64, b []byte) error {
		need(at, b)
		first := at + uint64(im.Order.Uint32(b[verneedAux:]))
		return im.chain(d, first, vernauxSize, vernauxNext, &budget, func(at uint64, b []byte) error { aux(at, b); return nil })
	})
}

// verdef does the same for DT_VERDEF.
func (im *Image) verdef(d Dyn, budget uint64, def, aux func(addr uint64, b []byte)) error {
	return im.chain(d, d.Val, verdefSize, verdefNext, &budget, func(at uint64, b []byte) error {
		def(at, b)
		first := at + uint64(im.Order.Uint32(b[verdefAux:]))
		return im.chain(d, first, verdauxSize, verdauxNext, &budget, func(at uint64, b []byte) error { aux(at, b); return nil })
	})
}

// A VersionRef is a word of a version table that is an offset in the string table.
type VersionRef struct {
	Off     uint64 // of the word, in the file
	Str     uint64 // offset in the string table
	Library bool   // it is a vn_file: the name of a needed library
}

// EachVersionRef reports the strings that DT_VERNEED and DT_VERDEF refer to.
func (im *Image) EachVersionRef(do func(VersionRef) error) error {
	var failed error
	ref := func(at uint64, b []byte, field uint64, library bool) {
		off, _ := im.FileOffset(at+field, 4)
		if err := do(VersionRef{off, uint64(im.Order.Uint32(b[field:])), library}); err != nil && failed == nil {
			failed = err
		}
	}
	err := im.eachVersionRecord(elf.DT_VERNEED, func(at uint64, b []byte) { ref(at, b, verneedFile, true) },
		func(at uint64, b []byte) { ref(at, b, vernauxName, false) })
	if err != nil {
		return err
	}
	err = im.eachVersionRecord(elf.DT_VERDEF, func(uint64, []byte) {}, func(at uint64, b []byte) { ref(at, b, verdauxName, false) })
	if err == nil {
		err = failed
	}
	return err
}

// eachVersionRecord calls head and aux for the records of DT_VERNEED or DT_VERDEF.
func (im *Image) eachVersionRecord(table elf.DynTag, head, aux func(addr uint64, b []byte)) error {
	budget := im.size / verdauxSize // records that fit in the file; overlapping ones are not followed without end
	d, ok := im.Dyn(table)
	if !ok {
		return nil
	}
	count, size := elf.DT_VERNEEDNUM, uint64(verneedSize)
	if table == elf.DT_VERDEF {
		count, size = elf.DT_VERDEFNUM, verdefSize
	}
	if num, _ := im.Dyn(count); num.Val > im.size/size {
		return Malformed(num.Off, "%v is %d in a file of %d bytes", count, num.Val, im.size)
	}
	if table == elf.DT_VERDEF {
		return im.verdef(d, budget, head, aux)
	}
	return im.verneed(d, budget, head, aux)
}

// VersionTableSize returns the size in bytes of what DT_VERNEED or DT_VERDEF names:
// from its first record to the end of the one that comes last.
func (im *Image) VersionTableSize(tag elf.DynTag) (size uint64, ok bool) {
	d, ok := im.Dyn(tag)
	if !ok {
		return 0, false
	}
	record := func(at uint64, b []byte) {
		if at >= d.Val {
			size = max(size, at+uint64(len(b))-d.Val)
		}
	}
	return size, im.eachVersionRecord(tag, record, record) == nil
}

// chain calls do for each record of size bytes from an address on; each says at
// nextAt how far it is to the next one, 0 at the end. Chains that overlap are not
// followed without end: budget counts the records that there may be.
func (im *Image) chain(d Dyn, addr, size, nextAt uint64, budget *uint64, do func(at uint64, b []byte) error) error {
	for {
		b, ok := im.Memory(addr, size)
		if !ok {
			return Malformed(d.Off, "%v record at address %#x is in no PT_LOAD", d.Tag, addr)
		}
		if *budget == 0 {
			return Malformed(d.Off, "%v has too many records", d.Tag)
		}
		*budget--
		if err := do(addr, b); err != nil {
			return err
		}
		next := uint64(im.Order.Uint32(b[nextAt:]))
		if next == 0 {
			return nil
		}
		addr += next
	}
}
