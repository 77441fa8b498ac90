package loader

import (
	"fmt"
	"slices"

	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/files"
)

// maxLoadSymbols bounds the symbols that are looked at for one file and what it loads, far above what the largest
// programs have. maxCompared bounds the comparisons of names.
const (
	maxLoadSymbols = 1 << 20
	maxCompared    = 1 << 26
)

// A Scope is the objects in which the loader looks symbols up, in order (elf/dl-lookup.c). First come those that were
// loaded at start or opened with RTLD_GLOBAL. For an object that was opened, it and what it needs come next.
type Scope struct {
	objects []*Object
	links   []*elfimage.Linkage
	in      *Interpreter
	Now     bool // nothing is bound late: see [Environment]
	budget  int
	has     map[*files.File]bool
	asserts bool // one of them has no DT_VERSYM: see Bind
}

// NewScope returns the scope of found objects under a loader. An error names an object whose symbols cannot be read.
func NewScope(in *Interpreter, objects []*Object) (*Scope, error) {
	s, total := &Scope{in: in, objects: objects, budget: maxCompared,
		has: make(map[*files.File]bool, len(objects))}, uint64(0)
	for _, o := range objects {
		l, err := o.File.Linkage()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Path, err)
		}
		if total += l.Symbols; total > maxLoadSymbols {
			return nil, fmt.Errorf("the files have more than %d dynamic symbols in total", maxLoadSymbols)
		}
		s.links, s.has[o.File], s.asserts = append(s.links, l), true, s.asserts || !l.Versioned && l.Exports()
	}
	return s, nil
}

// Bind returns the object to which a reference of another binds, nil for none. aborts: the loader ends the process
// instead, because that object should have a version of the symbol and has no versions at all.
func (s *Scope) Bind(from *Object, r *elfimage.Reference) (to *Object, aborts bool) {
	i, aborts := s.bind(from, r)
	if i < 0 {
		return nil, false
	}
	return s.objects[i], aborts
}

// bind is Bind, with the object's index; -1 for none.
func (s *Scope) bind(from *Object, r *elfimage.Reference) (at int, aborts bool) {
	musl := s.in.Kind == Musl
	for i, l := range s.links {
		o := s.objects[i]
		if r.Copy && o == from || !l.Defines(r, musl, &s.budget) {
			continue
		}
		return i, !musl && s.in.Version <= lastAssert && r.Version != nil && !l.Versioned && o.Answers(r.Version.Library)
	}
	return -1, false
}

// Unbound is a reference without a definition, or one at which the loader ends the process.
type Unbound struct {
	*elfimage.Reference
	In *Object
	// Aborts is the object whose definition ends the process: see [Scope.Bind]. nil: there is no definition.
	Aborts *Object
	// Late: the process fails when, and if, the function is first called. Else the load fails.
	Late bool
}

// Unbound returns an object's references, except weak ones, that nothing in the scope defines, or at which the loader
// aborts. Each symbol is there once, as it fails first. A program binds its own symbols before any other.
func (s *Scope) Unbound(o *Object) (out []Unbound, err error) {
	l, err := o.File.Linkage()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Path, err)
	}
	// A file that was fully bound once is bound again if the same files are there. Many processes have the same
	// libraries.
	if enough := o.File.Enough.Load(); enough != nil && !s.asserts &&
		!slices.ContainsFunc(*enough, func(f *files.File) bool { return !s.has[f] }) {
		return nil, nil
	}
	type key struct {
		name, version string
	}
	var seen map[key]int
	var enough []*files.File
	for i := range l.References {
		r := &l.References[i]
		at, aborts := s.bind(o, r)
		if at >= 0 && !aborts {
			if f := s.objects[at].File; !slices.Contains(enough, f) {
				enough = append(enough, f)
			}
			continue
		}
		if at < 0 && r.Weak {
			continue
		}
		var to *Object
		if at >= 0 {
			to = s.objects[at]
		}
		if s.budget <= 0 {
			return nil, fmt.Errorf("more than %d symbols were compared", maxCompared)
		}
		u := Unbound{r, o, to, r.Lazy && !s.Now && s.in.Kind != Musl}
		k := key{r.Name, u.Needs()}
		if at, again := seen[k]; again {
			if !u.Late {
				out[at] = u
			}
			continue
		}
		if seen == nil {
			seen = map[key]int{}
		}
		seen[k] = len(out)
		out = append(out, u)
	}
	if len(out) == 0 && !s.asserts {
		o.File.Enough.Store(&enough)
	}
	return out, nil
}

// Needs returns the version that the reference has; "" for none.
func (u *Unbound) Needs() string {
	if u.Version == nil {
		return ""
	}
	return u.Version.Name
}
