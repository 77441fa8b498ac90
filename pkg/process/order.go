package process

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/loader"
)

// Instead is another file that a name leads to if libraries are opened in another order than the one that was
// followed. Files do not show that order.
type Instead struct {
	Of     *loader.Object // what the name leads to as it was followed
	Object *loader.Object // what it leads to then
	When   string         // when that is, in words: "where PATH opens it first"
}

// Instead returns what names from notes and strings lead to if libraries are opened in another order. Of two files
// with one name, the first that is opened is in the process.
func (s *State) Instead() (all []Instead) {
	for _, p := range s.Opened {
		if !ofNoOrder(p) || strings.Contains(p.Name, "/") || !p.To.Found() || p.To.File == nil || p.To.Certain() ||
			s.endsPath(p) {
			continue
		}
		if p.Again {
			o := s.Alone(p.Name, p.By, p.Cause)
			if o != nil && !o.File.Is(p.To.File) && !s.follows(p.By, func(q *loader.Opening) bool {
				return slices.Contains(q.Brought, p.To)
			}) {
				all = append(all, Instead{p.To, o, fmt.Sprintf("where %s opens it first", p.By.Path)})
			}
			continue
		}
		for _, o := range s.Objects {
			if o.File != nil && !o.Certain() && !o.File.Is(p.To.File) && o.Answers(p.Name) &&
				!s.follows(o, func(q *loader.Opening) bool { return q == p }) {
				all = append(all, Instead{p.To, o, fmt.Sprintf("where %s is opened first", o.Path)})
			}
		}
	}
	return all
}

// endsPath reports whether all that speaks for the opening of a name is that a path ends in it, which is opened itself.
func (s *State) endsPath(p *loader.Opening) (ends bool) {
	if p.Cause != loader.DlopenString {
		return false
	}
	for _, l := range p.By.File.Literals() {
		if l.Name == p.Name && l.Path == "" {
			return false
		}
		ends = ends || l.Name == p.Name && s.There(l.Path)
	}
	return ends
}

// Better returns what the names looked up at the start lead to on the best processor for the file's machine. It is
// for a loader that was told no processor and runs on another kind of machine, where the least processor is assumed.
func (s *State) Better() (all []Instead) {
	best := s.Loader().Unknown(s.Main.File.Machine)
	if best == nil || s.Role == loader.Static {
		return nil
	}
	on, err := s.Start.Begin(best)
	if err != nil {
		return nil
	}
	for _, o := range s.Objects {
		i := slices.IndexFunc(on.Objects, func(x *loader.Object) bool { return x.Name == o.Name && x.Cause == o.Cause })
		if i < 0 || !o.Certain() || o.Path == on.Objects[i].Path || on.Objects[i].File == nil {
			continue
		}
		level := path.Base(path.Dir(on.Objects[i].Path))
		all = append(all, Instead{o, on.Objects[i], fmt.Sprintf("on a processor of level %s (--cpu %s)", level, level)})
	}
	return all
}

// ofNoOrder reports whether nothing says when a call of dlopen is made.
func ofNoOrder(p *loader.Opening) bool {
	return p.Cause == loader.DlopenString || p.Cause == loader.DlopenNote
}

// follows reports whether an object is loaded only by a call of dlopen of some kind, or by what such a call brought.
func (s *State) follows(o *loader.Object, kind func(*loader.Opening) bool) bool {
	for range s.Opened { // as long as the longest chain
		i := slices.IndexFunc(s.Opened, func(p *loader.Opening) bool { return slices.Contains(p.Brought, o) })
		if i < 0 {
			return false
		}
		if kind(s.Opened[i]) {
			return true
		}
		o = s.Opened[i].By
	}
	return false
}

// again repeats the failed calls for names from strings that lacked what others have loaded since, and reports
// whether one succeeds. What notes name is opened in their order.
func (s *State) again() (any bool) {
	for _, p := range slices.Clone(s.Failed) {
		if p.Cause != loader.DlopenString || p.Later != nil || !p.To.Found() {
			continue
		}
		if !slices.ContainsFunc(p.Brought, func(o *loader.Object) bool {
			return !o.Found() && slices.ContainsFunc(s.Objects, func(x *loader.Object) bool { return x.Answers(o.Name) })
		}) {
			continue
		}
		failed := s.Failed
		if q := s.Open(p.Name, p.By, p.Cause, p.Feature); q.Why == "" {
			p.Later, any = q, true
		}
		s.Failed = failed
	}
	return any
}
