// Package runpaths edits run paths: by the rules of the normal form, as a caller rewrites them, or without what nothing
// uses.
package runpaths

import (
	"debug/elf"
	"slices"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/driver/symbols"
	"cuda-runpath/pkg/edit"
	"cuda-runpath/pkg/elfedit"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/normal"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/tree"
)

// Edit is what is asked for of run paths, of each file alike. Several maps
// cost one walk and one open a file. It serves several goroutines.
type Edit struct {
	edit.Options
	Normal *normal.Maps
	Tag
	// ClearExecStack takes the request for an executable stack out, in the same edit.
	ClearExecStack bool

	Maps      runpath.Map
	WhenNeeds bool // AddDriverLink only where the file needs the driver
	// Entries, where it is not nil, changes the list before the maps do.
	Entries func(runpath.List) runpath.List
	// Rewrite replaces the maps where it is not nil.
	Rewrite func(runpath.List) runpath.List
	// Shrink, where it is not nil, drops unused entries instead, but those of which it is
	// true; entries below Temporary stay only for what no other entry holds.
	Shrink    func(entry string) bool
	Temporary []string
	// Opened are directories in which the CUDA toolkit's libraries are looked for that a file
	// names in read-only data.
	Opened []string
	// Offer finds the stub directories of each file; a dry run does nothing else.
	Offer bool
}

// Result is what came of a file's run path.
type Result struct {
	edit.Result
	Before, After edit.State
	// Notes are about the entries. Of a failed file there are none.
	Notes runpath.Notes
	// ClearedStack: it no longer asks for an executable stack.
	ClearedStack bool
	// Shadowed is the DT_RPATH, where the file had one beside its DT_RUNPATH, that is lost.
	Shadowed *string
	Stubs    []string // stub directories, expanded; only with Offer
	// Calls are the driver's functions that it refers to without needing any of the driver's libraries; only with
	// WhenNeeds.
	Calls []string
	// Opens are the libraries for which Opened has added OpenDirs.
	Opens, OpenDirs []string
}

// File edits one file.
func (p *Edit) File(f *tree.File) *Result {
	r := &Result{}
	d := &decision{Edit: p, path: f.Path, Result: r}
	r.Result = edit.File(f, p.Options, d.decide)
	switch r.Action {
	case edit.Edited:
		r.After = d.planned
		return r
	case edit.Failed:
		edit.Again(f, func(im *elfimage.Image) {
			if now, err := StateOf(im); err == nil {
				r.After = now
			}
		})
		r.Notes, r.ClearedStack, r.Opens, r.OpenDirs = runpath.Notes{}, false, nil, nil
	}
	r.Shadowed = nil
	return r
}

type decision struct {
	*Edit
	*Result
	path    string
	planned edit.State
}

func (d *decision) decide(im *elfimage.Image) (*elfedit.Change, string, error) {
	if reason := im.SkipReason(); reason != "" {
		return nil, string(reason), nil
	}
	before, err := StateOf(im)
	if err != nil {
		return nil, "", err
	}
	d.Before, d.After, d.planned = before, before, before
	maps, rewrites := d.Maps, true
	if d.WhenNeeds {
		needs, err := normal.NeedsDriver(im)
		if err != nil {
			return nil, "", err
		}
		if !needs {
			d.Calls = calls(im)
			needs = len(d.Calls) > 0
		}
		if !needs {
			maps &^= runpath.AddDriverLink
		}
		if rewrites = maps != 0; !rewrites && !d.clears(im) {
			return nil, "does not need the driver", nil
		}
	}
	if d.Edit.Offer {
		if d.Stubs = d.stubsAmong(im, before.List); d.DryRun {
			return nil, "", nil
		}
	}
	change := &elfedit.Change{}
	if rewrites {
		after, notes, err := d.rewrite(im, before.List, maps)
		if err != nil {
			return nil, "", err
		}
		if len(d.Edit.Opened) > 0 {
			if after, d.Opens, d.OpenDirs, err = d.opened(im, d.path, after); err != nil {
				return nil, "", err
			}
		}
		d.Notes = notes
		if change.RunPath, d.Shadowed, err = d.Change(im, after); err != nil {
			return nil, "", err
		}
		if change.RunPath != nil {
			d.planned = edit.State{Tag: change.RunPath.Tag, List: after}
		}
	}
	if d.clears(im) {
		change.ExecStack, d.ClearedStack = new(bool), true
	}
	if change.RunPath == nil && change.ExecStack == nil {
		return nil, "", nil
	}
	return change, "", nil
}

// clears reports whether the file asks for an executable stack, and is not to.
func (p *Edit) clears(im *elfimage.Image) bool {
	stack := im.Stack()
	return p.ClearExecStack && stack != nil && stack.Flags&elf.PF_X != 0
}

// rewrite returns the run path as it is to be.
func (d *decision) rewrite(im *elfimage.Image, before runpath.List, maps runpath.Map) (
	runpath.List, runpath.Notes, error) {
	if d.Shrink != nil {
		return d.shrink(im, d.path, before)
	}
	if d.Rewrite != nil {
		after := d.Rewrite(before)
		notes := runpath.Notes{Empties: after.Empties(), Duplicates: after.Duplicates()}
		if !d.Normal.KeepEmpty {
			after = slices.DeleteFunc(slices.Clone(after), func(entry string) bool { return entry == "" })
		}
		if d.Normal.Dedupe {
			after = after.Unique()
		}
		return after, notes, nil
	}
	file := normal.FileOf(d.path, im)
	if maps&runpath.ReplaceStubs != 0 {
		needed, err := im.Needed()
		if err != nil {
			return nil, runpath.Notes{}, err
		}
		file.Needed = needed
	}
	if d.Entries != nil {
		before = d.Entries(before)
	}
	after, notes := d.Normal.Apply(file, before, maps)
	return after, notes, nil
}

// stubsAmong returns the stub directories among entries, with their tokens expanded.
func (d *decision) stubsAmong(im *elfimage.Image, list runpath.List) (found []string) {
	entries := d.Normal.Entries(normal.FileOf(d.path, im))
	for _, entry := range list {
		if d.Normal.StubDirs.Contains(runpath.Key(entry)) {
			found = append(found, entries.Directories(entry)...)
		}
	}
	return found
}

// calls returns the functions of the driver's libraries that a file refers to and does not itself define.
func calls(im *elfimage.Image) (names []string) {
	l, known, err := im.Linkage()
	if err != nil || !known {
		return nil
	}
	for _, r := range l.References {
		if library, _ := symbols.Owner(r.Name); driver.Provides(library) && !slices.Contains(names, r.Name) {
			names = append(names, r.Name)
		}
	}
	return names
}
