// Package edit takes a file through an edit: image, change, plan, write, result. All tools
// that edit go this way; they differ in what decides on the change: packages edit/runpaths and edit/parts, or
// a caller's own [Decide].
package edit

import (
	"debug/elf"
	"errors"
	"fmt"

	"cuda-runpath/pkg/elfedit"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/tree"
)

// An Action says what an edit did with a file, in the words of the walk.
type Action = tree.Action

// The actions: see [tree.Action].
const (
	Edited    = tree.Edited
	Unchanged = tree.Unchanged
	Skipped   = tree.Skipped
	Failed    = tree.Failed
)

// State is what a file has for a run path.
type State struct {
	Tag  elf.DynTag // DT_RUNPATH, DT_RPATH, or DT_NULL for none
	List runpath.List
}

// Options say how an edit is carried out.
type Options struct {
	DryRun bool
	// InPlace writes into the file ([tree.File.Write]) instead of putting a new file in its place
	// ([tree.File.Replace]), which also gets the names Also of the old one.
	InPlace bool
	Also    []tree.Target
	// Note says what becomes of a file's resolution note. Where it is nil, one that the edit
	// makes stale goes.
	Note *Note
}

// A Result is what came of a file.
type Result struct {
	Action Action
	Err    error  // of Failed
	Reason string // why it was skipped
	// MovedNotes names notes that have another place now: see [elfedit.Edit.MovedNotes].
	MovedNotes []string
	// Note is what became of its resolution note.
	Note   NoteResult
	NoNote error // why that is NoteImpossible
	// LeftLinks is how many hard links to the file lead to what it was before.
	LeftLinks int
}

// Decide returns what is to change in a file, or nil for nothing; then skip, where it is not
// empty, is the reason why what was asked for has no place in this file.
type Decide func(im *elfimage.Image) (change *elfedit.Change, skip string, err error)

// File edits one file of a walk. A fault of this program fails the one file that showed it:
// an edit is planned before the first write.
func File(f *tree.File, o Options, decide Decide) (r Result) {
	switch {
	case f.Err != nil:
		return Result{Action: Failed, Err: f.Err}
	case !f.ELF():
		return Result{Action: Skipped, Reason: string(elfimage.NotELF)}
	case f.SameAs != "":
		return Result{Action: Skipped, Reason: "the same file as " + f.SameAs}
	}
	p, err := read(f, o.Note.with(f.Path, decide, &r.Note), true)
	if err != nil {
		return Result{Action: Failed, Err: err}
	}
	defer p.Release()
	if p.noNote != nil {
		r.Note, r.NoNote = NoteImpossible, p.noNote
	}
	switch {
	case p.Skip != "":
		r.Action, r.Reason = Skipped, p.Skip
		return r
	case p.Edit == nil:
		r.Action = Unchanged
		return r
	}
	if !o.DryRun {
		if err := p.Write(f, o); err != nil {
			return Result{Action: Failed, Err: err}
		}
	}
	r.Action, r.MovedNotes = Edited, p.Edit.MovedNotes()
	if !o.InPlace {
		r.LeftLinks = f.OutsideLinks()
	}
	return r
}

// Planned is a file that has been read, and what an edit would do to it.
type Planned struct {
	Skip string
	Edit *elfedit.Edit // nil where nothing changes
	im   *elfimage.Image
	// noNote says why the edit is made without the resolution note that was asked for.
	noNote error
}

// Read reads an ELF file and plans its edit. It changes nothing. The result is to be
// released while the file is still open.
func Read(f *tree.File, decide Decide) (*Planned, error) { return read(f, decide, false) }

// read is Read. noteless says that a file in which a resolution note has no place is to be
// edited without.
func read(f *tree.File, decide Decide, noteless bool) (p *Planned, err error) {
	p = &Planned{}
	defer func() {
		if fault := recover(); fault != nil {
			err = internal(fault)
		}
		if err = f.Blame(err); err != nil {
			p.Release()
		}
	}()
	if p.im, err = elfimage.ParseHead(f, f.Size(), f.Head()); err != nil {
		return p, err
	}
	change, skip, err := decide(p.im)
	if err != nil {
		return p, err
	}
	if p.Skip = skip; change == nil {
		return p, nil
	}
	p.Edit, err = elfedit.Plan(p.im, *change)
	if note := change.ResolutionNote; err != nil && noteless && note != nil && *note != "" {
		change.ResolutionNote = new(string)
		if without, again := elfedit.Plan(p.im, *change); again == nil {
			p.Edit, p.noNote, err = without, err, nil
		}
	}
	return p, err
}

// Write carries the edit out.
func (p *Planned) Write(f *tree.File, o Options) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = internal(fault)
		}
		err = f.Blame(err)
	}()
	if o.InPlace {
		return f.Write(func(w tree.Writer) error { return p.Edit.Apply(w) })
	}
	err = f.Replace(tree.Replacing{Also: o.Also}, func(w tree.Copy) error {
		err := p.Edit.Apply(w)
		if copied := (*elfedit.DamagedError)(nil); errors.As(err, &copied) {
			return copied.Err // of the new file, which goes
		}
		return err
	})
	if none := (*tree.NoNewFileError)(nil); errors.As(err, &none) && none.InPlace {
		err = fmt.Errorf("%w; --in-place writes into the file itself", err)
	}
	return err
}

// Release gives back what reading took. It may be called twice.
func (p *Planned) Release() {
	if p.im != nil {
		p.im.Release()
	}
	p.im = nil
}

func internal(fault any) error {
	return fmt.Errorf("internal error: %v; please report it, with the file", fault)
}

// Again calls look with what is in a file of which an edit has failed: it may have been
// written all the same, or in part. Where it cannot be read, look is not called.
func Again(f *tree.File, look func(*elfimage.Image)) {
	if f.Err != nil || !f.ELF() {
		return
	}
	now, err := f.Again()
	if err != nil {
		return
	}
	defer now.Close()
	im, err := elfimage.ParseHead(now, now.Size(), now.Head())
	if err != nil {
		return
	}
	defer im.Release()
	look(im)
}
