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

// Bounds against malicious files: records, bytes of a name with its NUL, which for a library is PATH_MAX, and bytes
// of all names. Even glibc has only some forty records.
const (
	maxVersions     = 1 << 14
	maxVersionName  = 4096
	maxVersionNames = 16 << 20
)

// VersionsNeeded returns what DT_VERNEED asks for (LSB, "Symbol Versioning").
func (im *Image) VersionsNeeded() ([]Version, error) {
	out, err := im.neededVersions()
	if err != nil {
		return nil, err
	}
	return out, im.nameVersions(out)
}

// neededVersions is VersionsNeeded without names.
func (im *Image) neededVersions() ([]Version, error) {
	d, ok := im.Dyn(elf.DT_VERNEED)
	if !ok {
		return nil, nil
	}
	own := im.spare()
	out := own.versions[:0]
	var library uint32
	err := im.records(d, min(im.size/16, maxVersions), func(_ uint64, need []byte) {
		library = im.Order.Uint32(need[verneed.str:])
	}, func(_ uint64, aux []byte) {
		out = append(out, Version{Hash: im.Order.Uint32(aux), Weak: im.Order.Uint16(aux[4:])&verFlagWeak != 0,
			library: library, name: im.Order.Uint32(aux[verneed.auxStr:]), index: im.Order.Uint16(aux[6:])})
	})
	own.versions = out
	if err != nil {
		return nil, err
	}
	return slices.Clone(out), nil
}

// VersionsDefined returns what DT_VERDEF defines. ok is false if there is none; the loader then assumes that the
// library has every version.
func (im *Image) VersionsDefined() (out []Version, ok bool, err error) {
	if out, ok, err = im.definedVersions(); !ok || err != nil {
		return nil, ok, err
	}
	return out, true, im.nameVersions(out)
}

// definedVersions is VersionsDefined without names.
func (im *Image) definedVersions() (out []Version, ok bool, err error) {
	d, ok := im.Dyn(elf.DT_VERDEF)
	if !ok {
		return nil, false, nil
	}
	// The first name is the version's own, the others are those of its predecessors.
	first := false
	err = im.records(d, min(im.size/16, maxVersions), func(_ uint64, def []byte) {
		out, first = append(out, Version{Hash: im.Order.Uint32(def[8:]), index: im.Order.Uint16(def[4:]),
			base: im.Order.Uint16(def[2:])&verFlagBase != 0}), true
	}, func(_ uint64, aux []byte) {
		if first {
			out[len(out)-1].name, first = im.Order.Uint32(aux), false
		}
	})
	return out, true, err
}

// nameVersions reads the names after all records, because the two are in different places.
func (im *Image) nameVersions(versions []Version) (err error) {
	left := maxVersionNames
	str := func(off uint32) (string, error) {
		at, end := im.StrOff+uint64(off), im.StrOff+im.StrSize
		s, err := im.cstring(at, min(at+maxVersionName, end))
		if left -= len(s); left < 0 || err != nil && at < end-min(end, maxVersionName) {
			return "", Malformed(at, "names of versions of more than %d bytes, or of %d in all", maxVersionName-1,
				maxVersionNames)
		}
		return s, err
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

// A versionTable describes the records of a version table (LSB, "Symbol Versioning"; the same in both classes): their
// sizes and the offsets of their fields, in bytes.
type versionTable struct {
	count                    elf.DynTag
	size, str, aux, next     uint64
	auxSize, auxStr, auxNext uint64
}

var (
	verneed = versionTable{count: elf.DT_VERNEEDNUM, size: 16, str: 4, aux: 8, next: 12, auxSize: 16, auxStr: 8,
		auxNext: 12}
	verdef = versionTable{count: elf.DT_VERDEFNUM, size: 20, aux: 12, next: 16, auxSize: 8, auxNext: 4}
)

// versionTableOf describes the table of DT_VERNEED or DT_VERDEF.
func versionTableOf(tag elf.DynTag) *versionTable {
	if tag == elf.DT_VERDEF {
		return &verdef
	}
	return &verneed
}

// records calls head for each Verneed or Verdef record of the table that d points to, and aux for each Vernaux or
// Verdaux of it, with their addresses. The loader follows vn_next and vna_next and ignores the counts (glibc
// elf/dl-version.c). There may be at most budget records in all.
func (im *Image) records(d Dyn, budget uint64, head, aux func(addr uint64, b []byte)) error {
	t := versionTableOf(d.Tag)
	return im.chain(d, d.Val, t.size, t.next, &budget, func(at uint64, b []byte) error {
		head(at, b)
		first := at + uint64(im.Order.Uint32(b[t.aux:]))
		return im.chain(d, first, t.auxSize, t.auxNext, &budget, func(at uint64, b []byte) error { aux(at, b); return nil })
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
	for _, table := range []elf.DynTag{elf.DT_VERNEED, elf.DT_VERDEF} {
		t := versionTableOf(table)
		ref := func(at uint64, b []byte, field uint64, library bool) {
			off, _ := im.FileOffset(at+field, 4)
			if err := do(VersionRef{off, uint64(im.Order.Uint32(b[field:])), library}); err != nil && failed == nil {
				failed = err
			}
		}
		err := im.eachVersionRecord(table, func(at uint64, b []byte) {
			if table == elf.DT_VERNEED { // a Verdef record has no string of its own
				ref(at, b, t.str, true)
			}
		}, func(at uint64, b []byte) { ref(at, b, t.auxStr, false) })
		if err != nil {
			return err
		}
	}
	return failed
}

// eachVersionRecord calls head and aux for the records of DT_VERNEED or DT_VERDEF.
func (im *Image) eachVersionRecord(table elf.DynTag, head, aux func(addr uint64, b []byte)) error {
	d, ok := im.Dyn(table)
	if !ok {
		return nil
	}
	t := versionTableOf(table)
	if num, _ := im.Dyn(t.count); num.Val > im.size/t.size {
		return Malformed(num.Off, "%v is %d in a file of %d bytes", t.count, num.Val, im.size)
	}
	// records that fit in the file; overlapping ones are not followed without end
	return im.records(d, im.size/8, head, aux)
}

// versionTableSize returns the size in bytes of the table of DT_VERNEED or DT_VERDEF, from its first record to the
// end of its last.
func (im *Image) versionTableSize(tag elf.DynTag) (size uint64, ok bool) {
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

// chain calls do for each record of size bytes from an address on. A record says at nextAt how far it is to the next
// one, 0 at the end. budget bounds the number of records, so that overlapping chains end.
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
