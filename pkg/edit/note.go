package edit

import (
	"cuda-runpath/pkg/elfedit"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/normal"
	"cuda-runpath/pkg/resolution"
	"cuda-runpath/pkg/runpath"
)

// Note gives each file that has a resolution note the one that is right for what it needs and
// for its run path after the edit.
type Note struct {
	Maps *normal.Maps // know the directories whose libraries no note names
	// Write gives one to the other files, too. Remove leaves none.
	Write, Remove bool
	// Anew looks again into directories that a file's note searches. Without it they stay searched: the
	// flags that said which are the host's came with the command that wrote the note.
	Anew bool
}

// NoteResult says what became of a file's resolution note.
type NoteResult string

// What can become of it. In a dry run it is what would.
const (
	NoteNone      NoteResult = "" // there is none, and was none
	NoteRight     NoteResult = "right"
	NoteWritten   NoteResult = "written"
	NoteRewritten NoteResult = "rewritten"
	NoteRemoved   NoteResult = "removed" // because it was to go, or because nothing is left to say
	// NoteImpossible: the file has no place for one, and is edited without.
	NoteImpossible NoteResult = "impossible"
)

// NoteChange returns what becomes of a note by what it says before and after; "": there is none.
func NoteChange(before, after string) NoteResult {
	switch {
	case before == "" && after == "":
		return NoteNone
	case before == "":
		return NoteWritten
	case after == "":
		return NoteRemoved
	case before != after:
		return NoteRewritten
	}
	return NoteRight
}

// Changed reports whether the file has another note now.
func (r NoteResult) Changed() bool {
	return r == NoteWritten || r == NoteRewritten || r == NoteRemoved
}

// with returns a decision that also decides on the note of the file at a path.
func (n *Note) with(path string, decide Decide, r *NoteResult) Decide {
	if n == nil {
		return decide
	}
	return func(im *elfimage.Image) (*elfedit.Change, string, error) {
		change, skip, err := decide(im)
		if err != nil || im.SkipReason() != "" {
			return change, skip, err
		}
		old, err := im.ResolutionCache()
		if err != nil {
			return nil, "", err
		}
		if old == nil && (n.Remove || !n.Write) {
			return change, skip, nil
		}
		if change == nil {
			change = &elfedit.Change{}
		}
		was := ""
		if old != nil {
			if was = old.Description; was == "" {
				was = "\x00" // one that says nothing
			}
		}
		want, err := n.want(path, im, change, was)
		if err != nil {
			return nil, "", err
		}
		change.ResolutionNote, *r = &want, NoteChange(was, want)
		if skip != "" && !r.Changed() {
			return nil, skip, nil
		}
		return change, "", nil
	}
}

// want returns the description of the note that a file is to have once it is changed; was is that of the one it has.
func (n *Note) want(path string, im *elfimage.Image, change *elfedit.Change, was string) (string, error) {
	if n.Remove {
		return "", nil
	}
	needed, err := im.Needed()
	if err != nil {
		return "", err
	}
	if change.Needed != nil {
		needed = change.Needed.Names
	}
	_, list, err := im.RunPath()
	if err != nil {
		return "", err
	}
	if change.RunPath != nil {
		list = change.RunPath.List
	}
	var kept resolution.Note
	if !n.Anew {
		kept, _ = resolution.Parse([]byte(was)) // of one that is malformed, what the loader reads
	}
	return string(n.Maps.Resolution(normal.FileOf(path, im), needed, runpath.Parse(list), kept).Bytes()), nil
}
