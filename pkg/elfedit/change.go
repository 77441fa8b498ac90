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

// normal returns the change in the form that the planner works with.
func (c Change) normal() (Change, error) {
	for _, p := range []struct {
		set  bool
		what string
	}{
		{c.Interpreter != nil, "the interpreter"},
		{c.Soname != nil, "the soname"},
		{c.Needed != nil, "needed libraries"},
		{c.ExecStack != nil, "the executable stack"},
		{c.OSABI != nil, "the OS ABI"},
		{len(c.ClearVersions) > 0, "symbol versions"},
		{c.NoDefaultLib, "DF_1_NODEFLIB"},
		{c.DebugTag, "DT_DEBUG"},
	} {
		if p.set {
			return c, fmt.Errorf("changing %s is not supported", p.what)
		}
	}
	if c.RunPath == nil {
		return c, errors.New("an empty change")
	}
	r := *c.RunPath
	switch {
	case strings.IndexByte(r.List, 0) >= 0:
		return c, fmt.Errorf("run path contains a NUL byte")
	case r.List == "":
		r.Tag = elf.DT_NULL
	case r.Tag != elf.DT_RUNPATH && r.Tag != elf.DT_RPATH && r.Tag != elf.DT_NULL:
		return c, fmt.Errorf("%v is no run path tag", r.Tag)
	}
	c.RunPath = &r
	return c, nil
}
