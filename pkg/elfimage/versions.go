package elfimage

import "debug/elf"

// Version is a symbol version that a file defines, or needs of a library.
type Version struct {
	Library string // that is to define it, as DT_NEEDED names it; "" for a definition
	Name    string
	Hash    uint32 // of the name, as the file has it
	Weak    bool   // VER_FLG_WEAK: the loader goes on without it

	library, name uint32 // offsets in the string table
}

// verFlagWeak is VER_FLG_WEAK.
const verFlagWeak = 2

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
	var out []Version
	budget := min(im.size/16, maxVersions)
	// Verneed: version, cnt, file, aux, next; Vernaux: hash, flags, other, name, next.
	err := im.chain(d, d.Val, 16, 12, &budget, func(at uint64, need []byte) error {
		return im.chain(d, at+uint64(im.Order.Uint32(need[8:])), 16, 12, &budget, func(_ uint64, aux []byte) error {
			out = append(out, Version{Hash: im.Order.Uint32(aux), Weak: im.Order.Uint16(aux[4:])&verFlagWeak != 0,
				library: im.Order.Uint32(need[4:]), name: im.Order.Uint32(aux[8:])})
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return out, im.nameVersions(out)
}

// VersionsDefined returns what DT_VERDEF defines; ok is false where there is none,
// and the loader then takes the library to have every version.
func (im *Image) VersionsDefined() (out []Version, ok bool, err error) {
	d, ok := im.Dyn(elf.DT_VERDEF)
	if !ok {
		return nil, false, nil
	}
	budget := min(im.size/16, maxVersions)
	// Verdef: version, flags, ndx, cnt, hash, aux, next; Verdaux: name, next. The first
	// name is the version's own, the others are those of its predecessors.
	err = im.chain(d, d.Val, 20, 16, &budget, func(at uint64, def []byte) error {
		aux := at + uint64(im.Order.Uint32(def[12:]))
		b, ok := im.Memory(aux, 8)
		if !ok {
			return Malformed(d.Off, "%v record at address %#x is in no PT_LOAD", d.Tag, aux)
		}
		out = append(out, Version{Hash: im.Order.Uint32(def[8:]), name: im.Order.Uint32(b)})
		return nil
	})
	if err != nil {
		return nil, true, err
	}
	return out, true, im.nameVersions(out)
}

// nameVersions reads the names, once all records are read: the two lie apart.
func (im *Image) nameVersions(versions []Version) (err error) {
	str := func(off uint32) (string, error) {
		at := im.StrOff + uint64(off)
		return im.CString(at, min(at+maxVersionName, im.StrOff+im.StrSize))
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
