// Package parts edits several parts of a file in one edit: interpreter, soname, needed libraries, executable stack,
// entries of the run path.
package parts

import (
	"debug/elf"
	"fmt"
	"slices"

	"cuda-runpath/pkg/edit"
	"cuda-runpath/pkg/edit/runpaths"
	"cuda-runpath/pkg/elfedit"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/tree"
)

// Edit is what is asked for of parts of a file, of each file alike. What is nil or empty
// stays as it is.
type Edit struct {
	edit.Options
	Interpreter   *string
	Soname        *string
	RemoveNeeded  []string
	ReplaceNeeded map[string]string // old to new
	AddNeeded     []string          // unless they are there
	AddFirst      bool              // before the others; else after them
	ExecStack     *bool
	RunPath       func(runpath.List) runpath.List
	runpaths.Tag
}

// Change is one thing that an edit changed, with its value before and after: a
// string, a list of strings (never nil), or for the executable stack a boolean. nil: there
// was none.
type Change struct {
	Part   string `json:"part"` // interpreter, soname, needed, execstack, runpath
	Before any    `json:"before"`
	After  any    `json:"after"`
}

// Result is what came of a file.
type Result struct {
	edit.Result
	Before, After edit.State // the run path
	Interpreter   string     // as the edit leaves it; "" where there is none
	Changes       []Change
	Notes         []string // what the changes may break, a sentence each
}

// File edits one file.
func (p *Edit) File(f *tree.File) *Result {
	r := &Result{}
	r.Result = edit.File(f, p.Options, func(im *elfimage.Image) (*elfedit.Change, string, error) {
		return r.decide(p, im)
	})
	switch r.Action {
	case edit.Unchanged, edit.Skipped:
		r.Changes = nil
		r.After = r.Before
	case edit.Failed:
		r.made(p, f)
	}
	return r
}

// made leaves of the changes those that were made although the edit failed.
func (r *Result) made(p *Edit, f *tree.File) {
	planned := r.Changes
	r.After, r.Changes, r.Notes = r.Before, nil, nil
	edit.Again(f, func(im *elfimage.Image) {
		if now, err := runpaths.StateOf(im); err == nil {
			r.After = now
		}
		var left Result
		if _, _, err := left.change(p, im); err != nil {
			return
		}
		r.Changes = slices.DeleteFunc(planned, func(c Change) bool {
			return slices.ContainsFunc(left.Changes, func(l Change) bool { return l.Part == c.Part })
		})
	})
}

func (r *Result) decide(p *Edit, im *elfimage.Image) (*elfedit.Change, string, error) {
	if reason := im.SkipReason(); reason != "" && !(p.headerOnly() && im.Loadable()) {
		return nil, string(reason), nil
	}
	var err error
	if r.Before, err = runpaths.StateOf(im); err != nil {
		return nil, "", err
	}
	r.Interpreter, _ = im.Interpreter() // who is asked to change it hears of a malformed one
	if p.Interpreter != nil && r.Interpreter != "" {
		r.Interpreter = *p.Interpreter
	}
	r.After = r.Before
	change, inapplicable, err := r.change(p, im)
	if err != nil || len(r.Changes) == 0 {
		return nil, inapplicable, err
	}
	if change.RunPath != nil {
		r.After = edit.State{Tag: change.RunPath.Tag, List: runpath.Parse(change.RunPath.List)}
	}
	return &change, "", nil
}

// headerOnly reports whether all that is asked for is in the program headers, which
// also a file without a dynamic section has.
func (p *Edit) headerOnly() bool {
	return p.ExecStack != nil && p.Interpreter == nil && p.Soname == nil && p.RunPath == nil &&
		len(p.RemoveNeeded)+len(p.ReplaceNeeded)+len(p.AddNeeded) == 0
}

// change returns what is to change in one file, and notes it in the report.
// inapplicable says why a part has no place in this kind of file.
func (r *Result) change(p *Edit, im *elfimage.Image) (c elfedit.Change, inapplicable string, err error) {
	note := func(part string, before, after any) {
		r.Changes = append(r.Changes, Change{part, before, after})
	}
	if p.Interpreter != nil {
		old, err := im.Interpreter()
		switch {
		case err != nil:
			return c, "", err
		case im.Prog(elf.PT_INTERP) == nil:
			inapplicable = "has no interpreter: it is a library"
		case old != *p.Interpreter:
			c.Interpreter = p.Interpreter
			note("interpreter", old, *p.Interpreter)
		}
	}
	if p.Soname != nil {
		old, err := im.Soname()
		_, has := im.Dyn(elf.DT_SONAME)
		switch {
		case err != nil:
			return c, "", err
		case !has && (im.Type != elf.ET_DYN || im.Prog(elf.PT_INTERP) != nil):
			inapplicable = "takes no soname: it is a program"
		case !has:
			c.Soname = p.Soname
			note("soname", nil, *p.Soname)
		case old != *p.Soname:
			c.Soname = p.Soname
			note("soname", old, *p.Soname)
		}
	}
	if len(p.RemoveNeeded)+len(p.ReplaceNeeded)+len(p.AddNeeded) > 0 {
		before, err := im.Needed()
		if err != nil {
			return c, "", err
		}
		after, renamed := p.needed(before)
		if !slices.Equal(before, after) {
			c.Needed = &elfedit.Needed{Names: after, Renamed: renamed}
			note("needed", entries(before), entries(after))
			if len(p.RemoveNeeded) > 0 {
				if err := r.orphans(im, before, after, renamed); err != nil {
					return c, "", err
				}
			}
		}
	}
	if p.ExecStack != nil {
		var before any
		stack := im.Stack()
		if stack != nil {
			before = stack.Flags&elf.PF_X != 0
		}
		if before != any(*p.ExecStack) {
			c.ExecStack = p.ExecStack
			note("execstack", before, *p.ExecStack)
		}
	}
	if p.RunPath != nil {
		if err := r.runPath(p, im, &c, note); err != nil {
			return c, "", err
		}
	}
	return c, inapplicable, nil
}

// needed returns the needed libraries as they are to be, and which of those before
// have another name then.
func (p *Edit) needed(before []string) (after []string, renamed map[string]string) {
	renamed = map[string]string{}
	for _, name := range before {
		if slices.Contains(p.RemoveNeeded, name) {
			continue
		}
		if to, ok := p.ReplaceNeeded[name]; ok && to != name {
			renamed[name] = to
			name = to
		}
		after = append(after, name)
	}
	var added []string
	for _, name := range p.AddNeeded {
		if !slices.Contains(after, name) && !slices.Contains(added, name) {
			added = append(added, name)
		}
	}
	if p.AddFirst {
		return append(added, after...), renamed
	}
	return append(after, added...), renamed
}

// orphans notes the libraries that are no longer needed while versions of theirs are:
// unless another library brings them, glibc's loader stops at an assertion
// (elf/dl-version.c, _dl_check_map_versions).
func (r *Result) orphans(im *elfimage.Image, before, after []string, renamed map[string]string) error {
	versions, err := im.VersionsNeeded()
	if err != nil {
		return err
	}
	var told []string
	for _, v := range versions {
		if renamed[v.Library] == "" && slices.Contains(before, v.Library) && !slices.Contains(after, v.Library) &&
			!slices.Contains(told, v.Library) {
			told = append(told, v.Library)
			r.Notes = append(r.Notes, fmt.Sprintf(
				"needs version %s of %s, which is no longer among its needed libraries: the loader stops there unless another "+
					"library brings it", v.Name, v.Library))
		}
	}
	return nil
}

func (r *Result) runPath(p *Edit, im *elfimage.Image, c *elfedit.Change, note func(string, any, any)) error {
	before, err := runpaths.StateOf(im)
	if err != nil {
		return err
	}
	after := slices.DeleteFunc(slices.Clone(p.RunPath(before.List)), func(entry string) bool { return entry == "" })
	c.RunPath, _, err = p.Change(im, after)
	if err == nil && c.RunPath != nil {
		note("runpath", entries(before.List), entries(after))
	}
	return err
}

// entries never returns nil.
func entries(l []string) []string {
	if l == nil {
		return []string{}
	}
	return l
}
