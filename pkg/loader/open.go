package loader

import (
	"cmp"
	"slices"
	"strings"
)

// Opening is a call of dlopen, and what came of it.
type Opening struct {
	Name    string
	By      *Object // who calls it
	Cause   Cause
	Feature string    // what for, as .note.dlopen says
	To      *Object   // what the name led to
	Again   bool      // it was there already
	Global  bool      // what is opened later finds its symbols: RTLD_GLOBAL
	Sure    bool      // it is called whenever the program, or script, is run
	Brought []*Object // what it loaded, in this order; where it failed, what is gone again
	Why     string    // why it failed; "" where it succeeded
	// Later is, of a call that failed, the same one after others, where it succeeds then; else nil.
	Later *Opening
	// Lacks are, of a call that failed, the versions that libraries lack which were there before.
	Lacks []Lack
}

// Open calls dlopen in an object, for a library with all that it needs. It succeeds as a whole, or leaves what was
// there before, with the names by which that was matched (dl_open_worker of elf/dl-open.c; dlopen of musl's
// ldso/dynlink.c). One that lacks nothing but libraries of the driver, for which a driver link is searched that does
// not exist, succeeds, as it does where there is a driver; [Object.Fails] says what it lacks here.
func (s *Load) Open(name string, by *Object, cause Cause, feature string) *Opening {
	p := &Opening{Name: name, By: by, Cause: cause, Feature: feature}
	before, whole := len(s.Objects), true
	if s.Interp.Kind == Musl {
		if p.To, p.Again = s.muslLoad(name, s.Main, cause); !p.Again {
			s.muslDeps(before)
		}
	} else if p.To, p.Again = s.mapObject(name, by, cause); !p.Again {
		p.To.loader = nil // __RTLD_CALLMAP
		whole = s.deps([]*Object{p.To})
	}
	p.Brought = slices.Clone(s.Objects[before:])
	stops := func(o *Object) bool {
		return !o.Cause.Optional() && (o.Err != "" || !o.Found() && !(o.awaited && o != p.To))
	}
	for _, o := range p.Brought {
		o.late = true
	}
	if !p.Again {
		p.To.NeededBy = by
	}
	s.opening = p
	if s.Interp.Kind != Musl && whole && !slices.ContainsFunc(p.Brought, stops) { // else the loader comes no further
		s.checkStack(p.Brought)
		s.checkTLS(p.Brought)
		s.checkVersions(p.Brought)
		s.checkISA(p.Brought)
	}
	s.opening = nil
	if whole && len(p.Lacks) == 0 && !slices.ContainsFunc(p.Brought,
		func(o *Object) bool { return stops(o) || o.lacksAtOnce() }) {
		by.Uses = append(by.Uses, Use{name, cause, feature, p.To, p.Again})
		s.Opened = append(s.Opened, p)
		s.settle(before)
		return p
	}
	if p.Why = cmp.Or(p.To.Fails(), "the search was given up"); len(p.Lacks) > 0 {
		p.Why = p.Lacks[0].Of.Path + ": " + lackText(p.Lacks)
	}
	p.To.fails = p.Why
	s.drop(before)
	s.Failed = append(s.Failed, p)
	return p
}

// Asks returns what an object asks for: what it uses, and what it opens in vain.
func (s *Load) Asks(o *Object) []Use {
	all := slices.Clip(o.Uses)
	for _, p := range s.Failed {
		if p.By == o {
			all = append(all, Use{p.Name, p.Cause, p.Feature, p.To, p.Again})
		}
	}
	return all
}

// WithFailed returns the objects, and those that calls of dlopen brought which failed.
func (s *Load) WithFailed() []*Object {
	all := slices.Clip(s.Objects)
	for _, p := range s.Failed {
		all = append(all, p.Brought...)
	}
	return all
}

// settle says of the objects from an index on that all that they need is there.
func (s *Load) settle(from int) {
	for _, o := range s.Objects[from:] {
		o.settled = true
	}
}

// Alone returns what a call of dlopen in an object would find for a name in a process in which nothing answers to it,
// without what that needs; nil where it finds none that can be loaded.
func (s *Load) Alone(name string, by *Object, cause Cause) *Object {
	var r outcome
	switch {
	case s.Interp.Kind != Musl:
		s.search(name, by, &r)
	case strings.Contains(name, "/"):
		s.take(&r, s.l.files.Open(s.l.abs(name)), Try{Path: name, Rule: ByPath})
	default:
		s.muslSearchFor(name, s.Main, &r)
	}
	if r.file == nil || r.fatal != "" {
		return nil
	}
	o := r.object(name, by, cause)
	o.late = true
	return o
}

// There reports whether a path leads to a file that can be opened.
func (s *Load) There(p string) bool { return s.l.files.Open(s.l.abs(p)).Errno == 0 }
