package loader

import (
	"cmp"
	"debug/elf"
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
	Brought []*Object // what it loaded, in this order; if it failed, that is gone again
	Why     string    // why it failed; "" if it succeeded
	// Later is the same call after others, if this one failed and that one succeeds; else nil.
	Later *Opening
	// Lacks are the versions that made the call fail because libraries that were there before lack them.
	Lacks []Lack
}

// Open calls dlopen in an object, for a library with all that it needs. It succeeds as a whole, or leaves what was
// there before, which keeps the names by which it was matched (dl_open_worker of elf/dl-open.c; dlopen of musl's
// ldso/dynlink.c). A call that lacks only the driver's libraries, in a driver link that does not exist, succeeds, as
// it would with a driver. [Object.Fails] says what it lacks here.
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
	if s.Interp.Kind != Musl && whole && !slices.ContainsFunc(p.Brought, stops) { // else the loader gets no further
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
		p.Why = p.Lacks[0].of.Path + ": " + lackText(p.Lacks)
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

// WithFailed returns the objects, and those that failed calls of dlopen brought.
func (s *Load) WithFailed() []*Object {
	all := slices.Clip(s.Objects)
	for _, p := range s.Failed {
		all = append(all, p.Brought...)
	}
	return all
}

// settle marks the objects from an index on: all that they need is there.
func (s *Load) settle(from int) {
	for _, o := range s.Objects[from:] {
		o.settled = true
	}
}

// Alone returns what a call of dlopen in an object would find for a name if nothing in the process answered to it,
// without what that needs. It is nil if nothing that can be loaded is found.
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

// SearchesRunPath reports whether a call of dlopen in an object may look into a run path: its own, or a DT_RPATH of
// what loaded it and of the program (or any run path of what loaded it, with musl).
func (s *Load) SearchesRunPath(by *Object) bool {
	has := func(o *Object) bool {
		return o.File != nil && o.File.List != "" &&
			(o == by || o.File.Tag == elf.DT_RPATH || s.Interp.Kind == Musl || s.base != s.Main)
	}
	for o := by; o != nil; o = o.loader {
		if has(o) {
			return true
		}
	}
	return has(s.base)
}

// There reports whether a path leads to a file that can be opened.
func (s *Load) There(p string) bool { return s.l.files.Open(s.l.abs(p)).Errno == 0 }
