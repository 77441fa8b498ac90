package fixup

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"

	"cuda-runpath/pkg/elfedit"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/tree"
)

// State is what of a file a plan changes.
type State struct {
	Tag         elf.DynTag // DT_RUNPATH, DT_RPATH or DT_NULL
	List        string
	Interpreter string
}

// stateOf reads the state of a file.
func stateOf(im *elfimage.Image) (s State, err error) {
	if s.Tag, s.List, err = im.RunPath(); err != nil {
		return s, err
	}
	s.Interpreter, err = im.Interpreter()
	return s, err
}

// State is what the file is like before the plan.
func (o *Object) State() State { return State{o.Tag, o.List, o.Interp} }

// State is what the file is like after the plan.
func (p *Plan) State() State {
	s := State{p.Tag, p.After.String(), p.Object.Interp}
	if p.Interpreter != "" {
		s.Interpreter = p.Interpreter
	}
	if s.List == "" {
		s.Tag = elf.DT_NULL
	}
	return s
}

// errMeanwhile says that a file is not what it was when the plan was made.
var errMeanwhile = errors.New("was changed by another process since it was read; it is left as it is")

// Step is one file that [Apply] brings from one state to another.
type Step struct {
	Path     string
	From, To State
	// Copy edits a copy, which then takes the file's place under Path and Also, paths of
	// hard links to it: others lead to the old file.
	Copy bool
	Also []string
	// InPlace says that hard links outside the tree lead to the file, and that the edit is
	// theirs too.
	InPlace bool
}

// Result is what came of a step.
type Result struct {
	Path string
	Same bool // the file was in its To state already
	Err  error
}

// Carrying says how steps are carried out.
type Carrying struct {
	Roots []string // what was walked to plan them: no symbolic link below is followed
	Jobs  int      // see [tree.Options]
}

// Apply carries out the steps, each in one edit, and emits their results in order.
// A file that is not in its From state is not changed, with errMeanwhile.
func Apply(ctx context.Context, steps []Step, c Carrying, emit func(Result)) error {
	paths := make([]string, len(steps))
	byPath := make(map[string]*Step, len(steps))
	for i := range steps {
		paths[i] = steps[i].Path
		byPath[steps[i].Path] = &steps[i]
	}
	return tree.Files(ctx, c.Roots, paths, tree.Options{Jobs: c.Jobs}, func(f *tree.File) (Result, bool) {
		s := byPath[f.Path]
		same, err := guarded(f, s)
		if err == nil && s.Copy && len(s.Also) > 0 {
			err = tree.Relink(c.Roots, s.Path, s.Also)
		}
		return Result{f.Path, same, err}, true
	}, emit)
}

// guarded makes a fault of this program a failure of the one file that showed it:
// what is planned is planned before the first write.
func guarded(f *tree.File, s *Step) (same bool, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("internal error: %v; please report it, with the file", fault)
		}
		err = f.Blame(err)
	}()
	return s.apply(f)
}

func (s *Step) apply(f *tree.File) (same bool, err error) {
	switch {
	case f.Err != nil:
		return false, f.Err
	case f.SameAs != "":
		return true, nil
	}
	im, err := elfimage.ParseKept(f, f.Size(), f.Head())
	if err != nil {
		return false, err
	}
	defer im.Release()
	now, err := stateOf(im)
	if err != nil {
		return false, err
	}
	switch now {
	case s.From:
	case s.To: // an earlier run, which was killed, came this far
		return true, nil
	default:
		return false, errMeanwhile
	}
	change := elfedit.Change{RunPath: &elfedit.RunPath{Tag: s.To.Tag, List: s.To.List}}
	if s.To.Interpreter != s.From.Interpreter {
		change.Interpreter = &s.To.Interpreter
	}
	edit, err := elfedit.Plan(im, change)
	if err != nil || edit == nil {
		return err == nil, err
	}
	write := f.Write
	if s.Copy {
		write = f.WriteCopy
	}
	return false, write(func(w tree.Writer) error { return edit.Apply(w) })
}
