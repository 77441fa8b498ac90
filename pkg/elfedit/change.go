package elfedit

import (
	"debug/elf"
	"errors"
	"fmt"
	"strings"
)

// A Change describes a file after an edit. The zero value of a part leaves that part as it is. All parts of a Change
// are carried out together, as one edit.
type Change struct {
	RunPath *RunPath // DT_RUNPATH and DT_RPATH

	Interpreter *string // PT_INTERP
	Soname      *string // DT_SONAME
	Needed      *Needed // DT_NEEDED
	ExecStack   *bool   // PF_X of PT_GNU_STACK
	OSABI       *byte   // e_ident[EI_OSABI]
	// ClearVersions names the dynamic symbols that lose their version.
	ClearVersions []string
	NoDefaultLib  bool // sets DF_1_NODEFLIB
	DebugTag      bool // adds a DT_DEBUG if there is none
	// Spare is the least number of unused program headers (PT_NULL) afterwards. They are room for tools that make
	// more segments.
	Spare int

	// ResolutionNote is the description of .note.nixos.ldcache afterwards, as the loader reads it, "" for no such
	// note. nil leaves the note as it is. If the run path, the needed libraries or the interpreter change, the note
	// would contradict them, and goes. A file without room for another program header cannot get a note.
	ResolutionNote *string
}

// RunPath is the run path in the dynamic section afterwards.
type RunPath struct {
	// Tag is elf.DT_RUNPATH or elf.DT_RPATH, and the file has only that one afterwards. elf.DT_NULL leaves it with
	// neither.
	Tag elf.DynTag
	// List is the run path, entries separated by ':', written as given. An empty
	// list leaves the file with neither tag: the loader ignores an empty one.
	List string
}

// Needed is the libraries in DT_NEEDED afterwards.
type Needed struct {
	Names []string // afterwards, in this order
	// Renamed maps an old name to one of Names. The versions that the file needs of the old library (DT_VERNEED,
	// vn_file) are then needed of the new one.
	Renamed map[string]string
}

// onlyHeader reports whether no part of the change needs a dynamic section.
func (c Change) onlyHeader() bool {
	return c.RunPath == nil && c.Soname == nil && c.Needed == nil &&
		len(c.ClearVersions) == 0 && !c.NoDefaultLib && !c.DebugTag && (c.ResolutionNote == nil || *c.ResolutionNote == "")
}

// normal returns the change in the planner's form, in which an empty run path has no tag.
func (c Change) normal() (Change, error) {
	if c.RunPath != nil {
		r := *c.RunPath
		switch {
		case strings.IndexByte(r.List, 0) >= 0:
			return c, errNUL("run path")
		case r.List == "" || r.Tag == elf.DT_NULL:
			r = RunPath{}
		case !isRunPath(r.Tag):
			return c, fmt.Errorf("%v is not a run path tag", r.Tag)
		}
		c.RunPath = &r
	}
	if c.Interpreter != nil {
		switch n := len(*c.Interpreter); {
		case n == 0:
			return c, errors.New("an empty interpreter")
		case n >= maxPath:
			return c, fmt.Errorf("an interpreter of %d bytes: the kernel takes at most %d (PATH_MAX)", n, maxPath-1)
		case strings.IndexByte(*c.Interpreter, 0) >= 0:
			return c, errNUL("interpreter")
		}
	}
	if c.Soname != nil && strings.IndexByte(*c.Soname, 0) >= 0 {
		return c, errNUL("soname")
	}
	if c.Needed != nil {
		for _, s := range c.Needed.Names {
			if strings.IndexByte(s, 0) >= 0 {
				return c, errNUL("name of a needed library")
			}
		}
		for _, s := range c.Needed.Renamed {
			if len(s) >= maxPath {
				return c, fmt.Errorf("a needed library's name of %d bytes: no file has one of more than %d (PATH_MAX)",
					len(s), maxPath-1)
			}
		}
	}
	if n := c.ResolutionNote; n != nil && *n != "" {
		switch {
		case noteSize(*n) > maxNoteRoom:
			return c, fmt.Errorf("a resolution note of %d bytes: at most %d are read", len(*n), maxNoteRoom-noteSize(""))
		case len(*n) <= 2 || !strings.HasSuffix(*n, "\x00\x00"):
			return c, errors.New("a resolution note that does not end with two NUL bytes, which the loader passes over")
		}
	}
	return c, nil
}

func errNUL(what string) error { return errors.New(what + " contains a NUL byte") }

// maxPath is PATH_MAX, the size in bytes of the longest path that can be opened, and of the longest PT_INTERP that
// Linux takes (fs/binfmt_elf.c, load_elf_binary).
const maxPath = 4096
