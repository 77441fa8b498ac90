package edit

import (
	"debug/elf"
	"slices"

	"cuda-runpath/pkg/elfedit"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/normal"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/tree"
)

// RunPaths is what the tools ask for that edit run paths, of each file alike. Several maps
// cost one walk and one open a file. It serves several goroutines.
type RunPaths struct {
	Options
	Normal     *normal.Maps
	ForceRPath bool
	// ForceRunPath gives a file a DT_RUNPATH that has a DT_RPATH also where nothing else of it changes.
	ForceRunPath bool
	// Inherits is asked of each file that has no DT_RUNPATH and is to get one; where it finds something, the file gets a
	// DT_RPATH. nil: none does.
	Inherits Inherits
	// ClearExecStack takes the request for an executable stack out, in the same edit.
	ClearExecStack bool

	Maps      runpath.Map
	WhenNeeds bool // AddDriverLink only where the file needs the driver
	// Rewrite replaces the maps where it is not nil.
	Rewrite func(runpath.List) runpath.List
	// Shrink, where it is not nil, drops unused entries instead, but those of which it is
	// true; entries below Temporary stay only for what no other entry holds.
	Shrink    func(entry string) bool
	Temporary []string
	// Opened are directories in which the CUDA toolkit's libraries are looked for that a file
	// names in read-only data: see [normal.Maps.Opened].
	Opened []string
	// Offer finds the stub directories of each file; a dry run does nothing else.
	Offer bool
}

// State is what a file has for a run path.
type State struct {
	Tag  elf.DynTag // DT_RUNPATH, DT_RPATH, or DT_NULL for none
	List runpath.List
}

// RunPathResult is what came of a file's run path.
type RunPathResult struct {
	Result
	Before, After State
	// Notes are about the entries. Of a failed file there are none.
	Notes runpath.Notes
	// ClearedStack: it no longer asks for an executable stack.
	ClearedStack bool
	// Shadowed is the DT_RPATH, where the file had one beside its DT_RUNPATH, that is lost.
	Shadowed *string
	Stubs    []string // stub directories, expanded; only with Offer
	// KeptRPath is why it has a DT_RPATH; nil where nothing is known to need that.
	KeptRPath *Loss
	// Calls are the driver's functions that it refers to without needing any of the driver's libraries; only with
	// WhenNeeds.
	Calls []string
	// Opens are the libraries for which Opened has added OpenDirs.
	Opens, OpenDirs []string
}

// File edits one file.
func (p *RunPaths) File(f *tree.File) *RunPathResult {
	r := &RunPathResult{}
	d := &runPathDecision{RunPaths: p, path: f.Path, RunPathResult: r}
	r.Result = File(f, p.Options, d.decide)
	switch r.Action {
	case Edited:
		r.After = d.planned
		return r
	case Failed:
		Again(f, func(im *elfimage.Image) {
			if now, err := StateOf(im); err == nil {
				r.After = now
			}
		})
		r.Notes, r.ClearedStack, r.Opens, r.OpenDirs = runpath.Notes{}, false, nil, nil
	}
	r.Shadowed = nil
	return r
}

// Would returns what File would do to the run path of a file, whatever that inherits; ok is false where it has no place
// for one, or cannot be read.
func (p *RunPaths) Would(f *tree.File) (Move, bool) {
	asked := *p
	asked.Inherits = nil
	d := &runPathDecision{RunPaths: &asked, path: f.Path, RunPathResult: &RunPathResult{}}
	return Would(f, d.decide, func() (from, to State) { return d.Before, d.planned })
}

// Would returns what an edit would do to the run path of a file whose decision is decide, which is asked, and states
// then; ok is false where it has no place for one, or cannot be read.
func Would(f *tree.File, decide Decide, states func() (from, to State)) (m Move, ok bool) {
	if f.Err != nil || !f.ELF() || f.SameAs != "" {
		return m, false
	}
	planned, err := Read(f, func(im *elfimage.Image) (*elfedit.Change, string, error) {
		_, _, err := decide(im)
		ok = im.SkipReason() == "" && err == nil
		return nil, "not now", err
	})
	planned.Release()
	m.Path = f.Path
	m.From, m.To = states()
	return m, ok && err == nil
}

// StateOf reads a file's run path.
func StateOf(im *elfimage.Image) (State, error) {
	tag, list, err := im.RunPath()
	return State{tag, runpath.Parse(list)}, err
}

// RunPathChange returns the change that gives a file a run path, or nil where it has that:
// an empty list and no tag are the same to the loader. shadowed is the DT_RPATH that is lost,
// where the file has one beside its DT_RUNPATH. kept is why it is a DT_RPATH although that was not asked for.
func RunPathChange(im *elfimage.Image, path string, after runpath.List, rpath bool,
	inherits Inherits) (c *elfedit.RunPath, shadowed *string, kept *Loss, err error) {
	tag, list, err := im.RunPath()
	if err != nil {
		return nil, nil, nil, err
	}
	old, both, err := im.Shadowed()
	if err != nil {
		return nil, nil, nil, err
	}
	c = &elfedit.RunPath{Tag: elf.DT_RUNPATH, List: after.String()}
	switch {
	case c.List == "":
		c.Tag = elf.DT_NULL
	case rpath:
		c.Tag = elf.DT_RPATH
	case tag != elf.DT_RUNPATH && inherits != nil:
		if kept, err = inherits(path); err != nil {
			return nil, nil, nil, err
		}
		if kept != nil {
			c.Tag = elf.DT_RPATH
		}
	}
	switch {
	case both:
		return c, &old, kept, nil
	case c.List == list && (c.Tag == tag || list == ""):
		return nil, nil, kept, nil
	}
	return c, nil, kept, nil
}

type runPathDecision struct {
	*RunPaths
	*RunPathResult
	path    string
	planned State
}

func (d *runPathDecision) decide(im *elfimage.Image) (*elfedit.Change, string, error) {
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
			d.Calls = normal.Calls(im)
			needs = len(d.Calls) > 0
		}
		if !needs {
			maps &^= runpath.AddDriverLink
		}
		if rewrites = maps != 0; !rewrites && !d.clears(im) {
			return nil, "does not need the driver", nil
		}
	}
	if d.RunPaths.Offer {
		if d.Stubs = d.Normal.StubsAmong(d.path, before.List); d.DryRun {
			return nil, "", nil
		}
	}
	change := &elfedit.Change{}
	if rewrites {
		after, notes, err := d.rewrite(im, before.List, maps)
		if err != nil {
			return nil, "", err
		}
		if len(d.RunPaths.Opened) > 0 {
			if after, d.Opens, d.OpenDirs, err = d.Normal.Opened(im, d.path, after, d.RunPaths.Opened); err != nil {
				return nil, "", err
			}
		}
		d.Notes = notes
		// The tag changes where something asks for it: a DT_RPATH is inherited, a DT_RUNPATH is not.
		keep := before.Tag == elf.DT_RPATH && d.Rewrite == nil && (d.Maps == 0 ||
			!d.ForceRunPath && slices.Equal(after, before.List))
		if change.RunPath, d.Shadowed, d.KeptRPath, err = RunPathChange(im, d.path, after, d.ForceRPath || keep,
			d.Inherits); err != nil {
			return nil, "", err
		}
		if change.RunPath != nil {
			d.planned = State{change.RunPath.Tag, after}
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
func (p *RunPaths) clears(im *elfimage.Image) bool {
	stack := im.Stack()
	return p.ClearExecStack && stack != nil && stack.Flags&elf.PF_X != 0
}

// rewrite returns the run path as it is to be.
func (d *runPathDecision) rewrite(im *elfimage.Image, before runpath.List, maps runpath.Map) (
	runpath.List, runpath.Notes, error) {
	if d.Shrink != nil {
		return d.Normal.Shrink(im, d.path, before, d.Shrink, d.Temporary)
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
	after, notes := d.Normal.Apply(file, before, maps)
	return after, notes, nil
}
