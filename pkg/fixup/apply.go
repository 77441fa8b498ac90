package fixup

import (
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cuda-runpath/pkg/edit"
	"cuda-runpath/pkg/elfedit"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/tree"
)

// State is the part of a file that an edit with a record changes. Plans do not tell the last two.
type State struct {
	Tag         elf.DynTag // DT_RUNPATH, DT_RPATH or DT_NULL
	List        string
	Interpreter string
	Note        string // the description of the resolution note
	Needed      string // DT_NEEDED, see NeededOf; "" if that is not told
	Stack       string // "executable" or "plain"; "" if that is not told
}

// The states of PT_GNU_STACK. A file without one asks for an executable stack, on most machines.
const (
	Executable = "executable"
	Plain      = "plain"
)

// NeededOf is the libraries that a file needs, as a State has them: a NUL, and one behind each name.
func NeededOf(names []string) string {
	return strings.Join(append([]string{""}, names...), "\x00") + "\x00"
}

// namesOf is the opposite of NeededOf.
func namesOf(needed string) []string {
	names := strings.Split(needed, "\x00")
	return names[1 : len(names)-1]
}

// is reports whether a file's state is the expected one. A lost note does not count, because there may have been no
// place for it.
func (s State) is(expected State) bool {
	if s.Note == "" {
		expected.Note = ""
	}
	return s.same(expected)
}

// same reports whether two states are the same in all that both tell.
func (s State) same(as State) bool { return s.with(as) == as.with(s) }

// with is a state with what only another one tells.
func (s State) with(other State) State {
	s.Needed, s.Stack = cmp.Or(s.Needed, other.Needed), cmp.Or(s.Stack, other.Stack)
	return s
}

// needed is the edit that makes the libraries that a file needs those of a state. Where there are as many, another
// name in the place of one stands for the same library, with the versions of it.
func (s State) needed(to State) *elfedit.Needed {
	if s.Needed == "" || to.Needed == "" || s.Needed == to.Needed {
		return nil
	}
	before, after := namesOf(s.Needed), namesOf(to.Needed)
	n := &elfedit.Needed{Names: after, Renamed: map[string]string{}}
	for i := range after {
		if len(before) == len(after) && before[i] != after[i] {
			n.Renamed[before[i]] = after[i]
		}
	}
	return n
}

// stateOf reads the state of a file.
func stateOf(im *elfimage.Image) (s State, err error) {
	if s.Tag, s.List, err = im.RunPath(); err != nil {
		return s, err
	}
	if s.Interpreter, err = im.Interpreter(); err != nil {
		return s, err
	}
	needed, err := im.Needed()
	if err != nil {
		return s, err
	}
	s.Needed, s.Stack = NeededOf(needed), Plain
	if stack := im.Stack(); stack == nil || stack.Flags&elf.PF_X != 0 {
		s.Stack = Executable
	}
	note, err := im.ResolutionCache()
	if note != nil {
		s.Note = note.Description
	}
	return s, err
}

// state is what the file is like before the plan.
func (o *Object) state() State {
	return State{Tag: o.Tag, List: o.List, Interpreter: o.Interp, Note: o.Description}
}

// State is what the file is like after the plan.
func (p *Plan) State() State {
	s := State{Tag: p.tag, List: p.After.String(), Interpreter: p.Object.Interp, Note: p.note}
	if p.Interpreter != "" {
		s.Interpreter = p.Interpreter
	}
	if s.List == "" {
		s.Tag = elf.DT_NULL
	}
	return s
}

// errMeanwhile says that a file has changed since the plan was made.
var errMeanwhile = errors.New("was changed by another process since it was read; it is left as it is")

// Outrun reports whether something else edited the file after it was read for the plan, which was not carried out.
func (p *Plan) Outrun() bool { return errors.Is(p.Result.Err, errMeanwhile) }

// Step is one file that [Apply] brings from one state to another.
type Step struct {
	At       tree.Target
	From, To State
	between  []State // the file may as well be in one of these
	// InPlace writes into the file. Else a new file takes its place under its path and Also, which are hard links to
	// it. Other links keep the old file.
	InPlace bool
	Also    []tree.Target
	// shared: hard links outside the tree lead to the file, and are edited, too.
	shared bool
	// recorded says that From is what a record tells.
	recorded bool
	// force brings the file to To from any state.
	force bool
}

// otherThan says that a file is not in its From state.
func (s *Step) otherThan(now State) error {
	if !s.recorded {
		return errMeanwhile
	}
	what := "resolution note"
	switch {
	case now.Tag != s.From.Tag || now.List != s.From.List:
		what = "run path"
	case now.Interpreter != s.From.Interpreter:
		what = "interpreter"
	case now.needed(s.From) != nil:
		what = "list of needed libraries"
	case now.Stack != s.From.with(now).Stack:
		what = "request for an executable stack"
	}
	return fmt.Errorf("its %s is not the recorded one: something else has edited it since; --force undoes it anyway",
		what)
}

// Result is what came of a step.
type Result struct {
	Path string
	// known: the file could be read. Before and After are then what it had and what it has.
	known         bool
	Before, After State
	Edited        bool  // in a dry run: would be
	NoNote        error // why it did not get the resolution note that was asked for
	Err           error
}

// Parts says what the step has changed beside the run path and the note, a line each.
func (r *Result) Parts() (parts []string) {
	change := func(what, before, after string) {
		if before != after {
			parts = append(parts, fmt.Sprintf("%s %s -> %s", what, before, after))
		}
	}
	list := func(needed string) string {
		return cmp.Or(strings.ReplaceAll(strings.Trim(needed, "\x00"), "\x00", ", "), "(none)")
	}
	change("interpreter", r.Before.Interpreter, r.After.Interpreter)
	change("needed", list(r.Before.Needed), list(r.After.Needed))
	change("stack", r.Before.Stack, r.After.Stack)
	return parts
}

// Carrying says how steps are carried out.
type Carrying struct {
	Jobs   int // see [tree.Options]
	DryRun bool
}

// Apply carries out the steps, each in one edit, and emits their results in order.
// A file that is not in its From state is not changed, with errMeanwhile.
func Apply(ctx context.Context, steps []Step, c Carrying, emit func(Result)) error {
	targets := make([]tree.Target, len(steps))
	byPath := make(map[string]*Step, len(steps))
	for i := range steps {
		targets[i] = steps[i].At.Whichever() // its state tells whether the plan is for it
		byPath[steps[i].At.Path] = &steps[i]
	}
	type done struct {
		Result
		same string
	}
	failed := map[string]Result{} // of files, by the path under which they were visited
	return tree.Files(ctx, targets, tree.Options{Jobs: c.Jobs}, func(f *tree.File) (done, bool) {
		d := done{Result{Path: f.Path}, f.SameAs}
		byPath[f.Path].apply(f, c.DryRun, &d.Result)
		return d, true
	}, func(d done) {
		if first, ok := failed[d.same]; ok && d.same != "" {
			first.Path, d.Result = d.Path, first
		} else if d.Err != nil {
			failed[d.Path] = d.Result
		}
		emit(d.Result)
	})
}

// stateOf reads of the state of a file what the step tells.
func (s *Step) stateOf(im *elfimage.Image) (now State, err error) {
	if now, err = stateOf(im); s.To.Needed == "" {
		now.Needed = ""
	}
	if s.To.Stack == "" {
		now.Stack = ""
	}
	return now, err
}

// apply carries the step out on a file that is open.
func (s *Step) apply(f *tree.File, dryRun bool, r *Result) {
	if f.SameAs != "" {
		r.known, r.Before, r.After = true, s.To, s.To // it is as it was left there
		return
	}
	done := edit.File(f, edit.Options{DryRun: dryRun, InPlace: s.InPlace, Also: s.Also},
		func(im *elfimage.Image) (*elfedit.Change, string, error) {
			now, err := s.stateOf(im)
			if err != nil {
				return nil, "", err
			}
			r.known, r.Before, r.After = true, now, now
			switch {
			case now.is(s.From):
			case now.same(s.To): // an earlier run, which was killed, came this far
				return nil, "", nil
			case slices.ContainsFunc(s.between, now.is):
			case !s.force:
				return nil, "", s.otherThan(now)
			}
			change := &elfedit.Change{RunPath: &elfedit.RunPath{Tag: s.To.Tag, List: s.To.List}, ResolutionNote: &s.To.Note}
			if s.To.Interpreter != now.Interpreter {
				change.Interpreter = &s.To.Interpreter
			}
			change.Needed = now.needed(s.To)
			if executable := s.To.Stack == Executable; s.To.Stack != "" && s.To.Stack != now.Stack {
				change.ExecStack = &executable
			}
			return change, "", nil
		})
	switch done.Action {
	case edit.Edited:
		if r.Edited, r.After = true, s.To; done.NoNote != nil {
			r.After.Note, r.NoNote = "", done.NoNote
		}
	case edit.Skipped: // it is no ELF file any more
		r.Err = errMeanwhile
	case edit.Failed:
		r.Err = done.Err
		edit.Again(f, func(im *elfimage.Image) {
			if now, err := s.stateOf(im); err == nil && r.known {
				r.After, r.Edited = now, now != r.Before
			}
		})
	}
}
