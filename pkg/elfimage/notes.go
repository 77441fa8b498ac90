package elfimage

import (
	"bytes"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
)

// DlopenNote is one object of a .note.dlopen note: libraries that the file may
// open at run time, which DT_NEEDED does not tell (systemd, "ELF_DLOPEN_METADATA").
type DlopenNote struct {
	Sonames     []string `json:"soname"` // alternatives, the preferred one first
	Feature     string   `json:"feature"`
	Description string   `json:"description"`
	Priority    string   `json:"priority"` // required, recommended, suggested
}

const (
	dlopenOwner = "FDO"
	dlopenType  = 0x407c0c0a
)

// maxNotes bounds the bytes of notes that are read, even if many headers lead to them. Real files have some hundreds.
const maxNotes = 1 << 20

// maxSonames bounds the names in .note.dlopen notes, because a loader looks for each among all that is loaded.
const maxSonames = 4096

// DlopenNotes returns what the file's .note.dlopen notes say, in the file's order. It finds them by PT_NOTE, as a
// program at run time does, or by SHT_NOTE if there is none. Notes are hints, so one that is not as specified, or has
// more than maxSonames names, is passed over.
func (im *Image) DlopenNotes() ([]DlopenNote, error) {
	var found []DlopenNote
	names := 0
	err := im.eachNote(0, dlopenOwner, dlopenType, func(desc []byte) {
		var notes []DlopenNote
		if json.Unmarshal(bytes.TrimRight(desc, "\x00"), &notes) == nil {
			for _, n := range notes {
				if names += len(n.Sonames); names > maxSonames {
					return
				}
				found = append(found, n)
			}
		}
	})
	return slices.Clip(found), err
}

// NoteDescriptors returns the descriptors of the notes of an owner and type. First come those with the padding that
// the gABI asks for, then those with other padding that files have (none, or to the other word). Only the note's
// reader can tell which is meant.
func (im *Image) NoteDescriptors(owner string, typ uint32) ([][]byte, error) {
	var all [][]byte
	for _, align := range []uint64{0, 4, 8, 1} {
		err := im.eachNote(align, owner, typ, func(desc []byte) { all = append(all, slices.Clone(desc)) })
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// BuildID returns the build ID in hexadecimal digits, "" if there is none. It reads the section .note.gnu.build-id,
// which no PT_NOTE need cover (Go's linker covers its own note alone), or a PT_NOTE in a file without section
// headers.
func (im *Image) BuildID() (string, error) {
	const buildID = 3 // NT_GNU_BUILD_ID
	for i := range im.Sections {
		if s := &im.Sections[i]; s.InFile() && im.SectionName(i) == ".note.gnu.build-id" {
			b, padding, err := im.readNotes(s.Off, s.Size, s.Addralign)
			if err != nil {
				return "", err
			}
			for n := range im.eachNoteIn(b, padding) {
				if n.typ == buildID && string(n.owner) == "GNU" {
					return hex.EncodeToString(b[n.desc : n.desc+n.size]), nil
				}
			}
		}
	}
	all, err := im.NoteDescriptors("GNU", buildID)
	if err != nil || len(all) == 0 {
		return "", err
	}
	return hex.EncodeToString(all[0]), nil
}

// eachNote calls a function with the descriptor of each note of an owner and type, which must not be kept. Name and
// descriptor are padded to align; 0: as the gABI says.
func (im *Image) eachNote(align uint64, owner string, typ uint32, use func(desc []byte)) error {
	type area struct{ off, size, align uint64 }
	var spans []area
	for _, p := range im.Progs {
		if p.Type == elf.PT_NOTE {
			spans = append(spans, area{p.Off, p.Filesz, p.Align})
		}
	}
	if spans == nil {
		for _, s := range im.Sections {
			if s.Type == elf.SHT_NOTE {
				spans = append(spans, area{s.Off, s.Size, s.Addralign})
			}
		}
	}
	left := uint64(maxNotes)
	for _, s := range spans {
		if s.size > left {
			continue
		}
		left -= s.size
		b, padding, err := im.readNotes(s.off, s.size, s.align)
		if err != nil {
			return err
		}
		if align != 0 {
			padding = align
		}
		for n := range im.eachNoteIn(b, padding) {
			if n.typ == typ && string(n.owner) == owner {
				use(b[n.desc : n.desc+n.size])
			}
		}
	}
	return nil
}

// A noteIn is a note of a segment: its owner without the NUL, and byte offsets in the segment of the note, of its
// descriptor of size bytes, and after its padding.
type noteIn struct {
	owner                  []byte
	typ                    uint32
	start, desc, size, end uint64
}

// eachNoteIn yields the notes in b (gABI, "Note Section": three words, the name and the
// descriptor, each padded; to 8 bytes where the segment's alignment is 8, as in
// PT_GNU_PROPERTY's).
func (im *Image) eachNoteIn(b []byte, align uint64) func(func(noteIn) bool) {
	return func(yield func(noteIn) bool) {
		for at, all := uint64(0), uint64(len(b)); all-at >= 12; {
			namesz, size := uint64(im.Order.Uint32(b[at:])), uint64(im.Order.Uint32(b[at+4:]))
			desc := at + (12+namesz+align-1)&^(align-1)
			if namesz > math.MaxUint32/2 || desc+size > all {
				return
			}
			n := noteIn{bytes.TrimRight(b[at+12:at+12+namesz], "\x00"), im.Order.Uint32(b[at+8:]), at, desc, size,
				min(desc+(size+align-1)&^(align-1), all)}
			if !yield(n) {
				return
			}
			at = n.end
		}
	}
}

// NotesAreOf reports whether all notes in a range of the file, whose notes are padded to
// align, have one of the owners.
func (im *Image) NotesAreOf(owners []string, off, size, align uint64) (bool, error) {
	b, padding, err := im.readNotes(off, size, align)
	if err != nil {
		return false, err
	}
	for n := range im.eachNoteIn(b, padding) {
		if !slices.ContainsFunc(owners, func(owner string) bool { return owner == string(n.owner) }) {
			return false, nil
		}
	}
	return true, nil
}

// readNotes reads the notes of a header with the alignment align. It returns none if they are not in the file or too
// large. padding is what their parts are padded to, in bytes.
func (im *Image) readNotes(off, size, align uint64) (b []byte, padding uint64, err error) {
	if size > maxNotes || size > im.size || off > im.size-size {
		return nil, 0, nil
	}
	padding = 4
	if align == 8 {
		padding = 8
	}
	b, err = im.Read(off, size)
	return b, padding, err
}
