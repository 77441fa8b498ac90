package fixup

import (
	"context"
	"errors"
	"fmt"

	"cuda-runpath/pkg/loader"
)

// Changing says how plans are carried out.
type Changing struct {
	Carrying
	// InPlace writes into the files. That also changes hard links outside the tree, such as a package manager's
	// cache, from which other trees are made.
	InPlace bool
	// Records are where the changes are noted; nil: nowhere.
	Records *Records
	// Progress is called from one goroutine with the number of files that are done.
	Progress func(done, of int)
}

// Change asks the loader whether it would do what the plans say, and carries out the plans for which it would. The
// others fail, and their files stay as they are. The results are in [Plan.Err], [Plan.Skip], [Plan.Surprises] and
// [Plan.Result]. If err is set, nothing was changed. stopped, which may be a *[tree.Stopped], says why not everything
// was done.
func (ix *Index) Change(ctx context.Context, plans []*Plan, c Changing) (stopped, err error) {
	ix.confirm()
	var steps []Step
	byPath := map[string]*Plan{}
	for _, p := range plans {
		o := p.Object
		p.Result = Result{Path: o.Path, known: true, Before: o.state(), After: o.state()}
		if !p.stands() || !p.Changes() {
			continue
		}
		s := Step{At: o.at, From: o.state(), To: p.State(), InPlace: c.InPlace, shared: c.InPlace && o.LinkedOutside() > 0}
		for _, same := range o.also {
			s.Also = append(s.Also, same.at)
		}
		steps = append(steps, s)
		byPath[o.Path] = p
		p.Err = errStopped
	}
	if len(steps) == 0 {
		return nil, nil
	}
	done, again := 0, false
	stopped, err = c.Records.Carry(ctx, steps, c.Carrying, func(r Result) {
		if done++; c.Progress != nil {
			c.Progress(done, len(steps))
		}
		p := byPath[r.Path]
		p.Result, p.Err = r, r.Err
		if r.Err != nil {
			again = true
			if !r.Edited && p.skipMalformed(r.Err) {
				p.Err = nil
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if again && stopped == nil { // plans relied on files that are not as planned
		if ix.loader, stopped = loader.New(loader.Options{NoTries: true}); stopped == nil {
			ix.confirm()
		}
	}
	return stopped, nil
}

var errStopped = errors.New("not processed: the run was stopped first; the file is unchanged")

// confirm asks the loader about the plans. Plans that it would not follow fail, until it would do what the others
// say.
func (ix *Index) confirm() {
	for again := true; again; {
		again = false
		for _, s := range ix.verify() {
			p := s.plan
			again = again || p.Changes()
			switch {
			case s.err != nil && (p.Result.Edited || !p.skipMalformed(s.err)): // an edited file is not skipped
				p.Err = fmt.Errorf("the loader cannot be asked about it: %w", s.err)
			case s.err == nil:
				p.Surprises = append(p.Surprises, s.text)
				if p.Err == nil {
					p.Err = errors.New("the loader would not do what was planned: " + s.text)
				}
			}
		}
	}
}
