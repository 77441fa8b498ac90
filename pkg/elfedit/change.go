package elfedit

import (
	"debug/elf"
	"errors"
	"fmt"
	"strings"
)

// A Change says what a file is to say afterwards. The zero value of each part leaves
// it as it is. All parts of one Change are carried out together, as one edit.
type Change struct {
	RunPath *RunPath // DT_RUNPATH and DT_RPATH

	Interpreter *string // PT_INTERP
	Soname      *string // DT_SONAME
	Needed      *Needed // DT_NEEDED
	ExecStack   *bool   // PF_X of PT_GNU_STACK
	OSABI       *byte   // e_ident[EI_OSABI]
	// ClearVersions names the dynamic symbols that are to have no version.
	ClearVersions []string
	NoDefaultLib  bool // sets DF_1_NODEFLIB
	DebugTag      bool // adds a DT_DEBUG where there is none
	// Spare is the number of unused program headers (PT_NULL) that there are to be at least: room
	// for who makes more segments of those that there are.
	Spare int

	// ResolutionNote is the description of .note.nixos.ldcache afterwards, as the loader
	// reads it, "" for no such note. nil leaves the note as it is, unless the run path, the
	// needed libraries or the interpreter change: then it would contradict them, and goes.
	// A file that has no place for another program header cannot get one.
	ResolutionNote *string
}

// RunPath says what the dynamic section is to say about the run path.
type RunPath struct {
	// Tag is elf.DT_RUNPATH or elf.DT_RPATH: the one of the two that the file
	// has afterwards. elf.DT_NULL leaves it with neither.
	Tag elf.DynTag
	// List is the run path, entries separated by ':', written as given. An empty
	// list leaves the file with neither tag: the loader ignores an empty one.
	List string
}

// Needed says which libraries DT_NEEDED is to name.
type Needed struct {
	Names []string // afterwards, in this order
	// Renamed maps a name before to one of Names: the versions that the file needs of
	// the library of the old name (DT_VERNEED, vn_file) are then those of the new one.
	Renamed map[string]string
}

// onlyHeader reports whether no part of the change needs a dynamic section.
func (c Change) onlyHeader() bool {
	return c.RunPath == nil && c.Soname == nil && c.Needed == nil &&
		len(c.ClearVersions) == 0 && !c.NoDefaultLib && !c.DebugTag && (c.ResolutionNote == nil || *c.ResolutionNote == "")
}

// normal returns the change in the form that the planner works with: a run path that
// is empty has no tag.
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

// maxPath is PATH_MAX, the size in bytes of the longest path that is opened, and that Linux takes
// a PT_INTERP up to (fs/binfmt_elf.c, load_elf_binary).
const maxPath = 4096
