package fixup

import (
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/process"
)

// start is a program of the tree, or a library of it that none of them loads, as if a program opened it: what the
// loader would do with the plans.
type start struct {
	plan   *Plan
	loads  map[*Plan]bool // files of the tree
	asks   []ask
	faults []fault
	found  []Surprise // see verification
	err    error
}

// ask is an object of a start that asks for a library with versions by its name.
type ask struct {
	name      string
	by, takes *loader.Object
}

// fault is something with which a start fails, or may fail.
type fault struct {
	key, text string
	missing   bool               // else a version is
	clash     bool               // of starts that can be in one process
	helps     iter.Seq[*refusal] // of which one is enough; made when asked for: there may be very many
	tell      func()             // what to say of it at the end; nil for nothing
}

func (s *start) loadsOneOf(plans map[*Plan]bool) bool {
	for p := range plans {
		if s.loads[p] {
			return true
		}
	}
	return false
}

// start asks what one start would do.
func (w *loop) start(l *loader.Loader, p *Plan) *start {
	s := &start{plan: p, loads: map[*Plan]bool{p: true}}
	load, err := process.Start{File: p.Object.Real, Interpreter: p.runsOn()}.Begin(l)
	if err != nil || load.Static {
		s.err = err
		return s
	}
	for _, o := range load.Objects {
		from := w.of(o)
		if from != nil {
			s.loads[from] = true
			if p.Object.program() {
				s.found = append(s.found, compare(from, o, load.Load, p)...)
			}
		}
		for _, u := range o.Uses {
			if u.Cause != loader.Needed || u.To == nil {
				continue
			}
			var n *Need
			if from != nil {
				n = from.need(u.Name)
			}
			a := ask{u.Name, o, u.To}
			switch {
			case w.gone(load, u, n):
				s.faults = append(s.faults, w.missing(s, a, n))
			case u.To.File != nil && u.To.File.Versioned() && !libCName(u.Name):
				s.asks = append(s.asks, a)
			}
			var lacks []string
			for _, l := range u.To.Lacks {
				if l.By == o && !slices.Contains(lacks, l.Version) {
					lacks = append(lacks, l.Version)
				}
			}
			if len(lacks) > 0 {
				s.faults = append(s.faults, w.lacking(s, a, n, lacks))
			}
		}
	}
	if !p.Object.program() && p.Err == nil {
		s.found = compare(p, load.Main, load.Load, p)
	}
	for _, o := range load.Objects { // of many starts, what else there is takes gigabytes
		*o = loader.Object{Name: o.Name, Path: o.Path, File: o.File, NeededBy: o.NeededBy}
	}
	return s
}

// of returns the plan of an object's file; nil for one that is not the tree's.
func (w *loop) of(o *loader.Object) *Plan {
	if o.File == nil {
		return nil
	}
	return w.planned[o.File.Path]
}

// chain are the run's choices by which an object is in a start, the nearest first.
func (w *loop) chain(o *loader.Object) iter.Seq[choice] {
	return func(yield func(choice) bool) {
		for o := o; o.NeededBy != nil; o = o.NeededBy {
			if p := w.of(o.NeededBy); p != nil {
				if n := p.need(o.Name); n != nil && p.chosen(n) && w.r.taken(n) != nil && !yield(choice{p, n, o}) {
					return
				}
			}
		}
	}
}

// gone reports whether an object of a start would not find what it uses, where that is no wonder. n is its need.
func (w *loop) gone(load *process.State, u loader.Use, n *Need) bool {
	found := u.To.Found()
	if found && (w.r.today != nil || u.To.Rule != loader.ByCache && u.To.Rule != loader.ByDefault) {
		return false
	}
	switch {
	case driver.Provides(u.Name), libCName(u.Name) && (found || !load.Interp.Found):
		return false
	case n != nil && (n.Outcome == Ignored || n.Outcome == Optional || n.Outcome == Absolute || n.Outcome == InLibC):
		return false
	case n != nil && n.inherited && !w.of(load.Main).Object.program(): // which only a program of the tree makes it find
		return false
	case n != nil && (found && n.Outcome != Missing || n.Outcome == Found && !load.Interp.Found), w.r.ignored(u.Name):
		return false
	}
	// In a build there is nothing of the host's.
	return !found || w.r.in(w.of(load.Main)) != path.Dir(u.To.File.Path)
}

// missing is the fault that an object of a start does not find a library. n is its need.
func (w *loop) missing(s *start, a ask, n *Need) fault {
	f := fault{key: s.key(a), text: fmt.Sprintf("%s, which %s needs, is not found", a.name, a.by.Path), missing: true}
	f.helps = func(yield func(*refusal) bool) {
		if n != nil && n.Outcome == BySystem && !yield(w.refusal(choice{plan: w.of(a.by), need: n}, "is not found by what will be the run paths")) {
			return
		}
		for c := range w.chain(a.by) {
			x := w.refusal(c, "")
			x.why = func() string {
				why := fmt.Sprintf("needs %s, which is missing", a.name)
				for o := a.by; o.File.Path != x.object.Real && o.NeededBy != nil; o = o.NeededBy {
					why = fmt.Sprintf("needs %s, which %s", o.Name, why)
				}
				return why
			}
			if !yield(x) {
				return
			}
		}
	}
	if w.of(a.by) == nil {
		f.tell = func() { w.lack(s.plan, w.chain(a.by), a.by, a.name) }
	}
	return f
}

// lacking is the fault that an object of a start gets a library without a version that it needs. n is its need.
func (w *loop) lacking(s *start, a ask, n *Need, lacks []string) fault {
	what := strings.Join(lacks, ", ")
	f := fault{key: s.key(a), text: fmt.Sprintf("%s lacks %s, which %s needs", a.takes.Path, what, a.by.Path)}
	users := func(yield func(ask) bool) {
		for _, b := range s.asks {
			if b.name == a.name && !yield(b) {
				return
			}
		}
	}
	f.helps = func(yield func(*refusal) bool) {
		if n != nil && n.inherited && !yield(w.refusal(choice{plan: w.of(a.by), need: n}, "is not what it finds by what will be the run paths")) {
			return
		}
		w.apart(a, a, lacks, users, true)(yield)
	}
	return f
}

func (s *start) key(a ask) string {
	return s.plan.Object.Real + "\x00" + path.Base(a.by.Path) + "\x00" + a.name
}

func (w *loop) refusal(c choice, why string) *refusal {
	return &refusal{choice: c, object: w.r.taken(c.need), why: func() string { return why }}
}

// apart are the refusals by which what one object takes for a name would not meet another that needs more of it.
// For whom else what it takes must do says users; one says that they are of one start.
func (w *loop) apart(a, b ask, lacks []string, users iter.Seq[ask], one bool) iter.Seq[*refusal] {
	what := func() string { return fmt.Sprintf("%s that %s needs", strings.Join(lacks, ", "), b.by.Path) }
	return func(yield func(*refusal) bool) {
		for c := range w.chain(a.takes) {
			if !one && c.need.Outcome != Found { // which plugins are opened together is not known
				continue
			}
			x := w.refusal(c, "")
			x.why = func() string {
				return fmt.Sprintf("brings %s, which lacks %s in the same process", a.takes.Path, what())
			}
			if x.object.Real == a.takes.File.Path {
				x.why = func() string {
					return fmt.Sprintf("lacks %s, which %s needs in the same process", strings.Join(lacks, ", "), b.by.Path)
				}
				x.does = func(lib *Object) bool {
					for u := range users {
						if len(lib.Lacks(u.by.File, a.name)) > 0 {
							return false
						}
					}
					return true
				}
			}
			if !yield(x) {
				return
			}
		}
		if one || w.of(b.by) == nil {
			for c := range w.chain(b.by) {
				x := w.refusal(c, "")
				x.why = func() string { return fmt.Sprintf("meets %s, which lacks %s", a.takes.Path, what()) }
				if !yield(x) {
					return
				}
			}
		}
	}
}

// faults returns all: first what is missing, at last those of starts that can be in one process.
func (w *loop) faults() (out []fault) {
	var later []fault
	for _, s := range w.all {
		for _, f := range s.faults {
			if f.missing {
				out = append(out, f)
			} else {
				later = append(later, f)
			}
		}
	}
	return append(append(out, later...), w.clashes()...)
}

// clashes are the faults of starts that can be in one process. A process loads one file for a name, the first that
// something asks for: so what one takes must do for all.
func (w *loop) clashes() (out []fault) {
	type user struct {
		*start
		ask
	}
	type library struct{ name, file string }
	by, libraries, files := map[library][]user{}, []library(nil), map[string]int{}
	for _, s := range w.all {
		for _, a := range s.asks {
			l := library{a.name, a.takes.File.Path}
			if by[l] == nil {
				libraries = append(libraries, l)
				files[a.name]++
			}
			by[l] = append(by[l], user{s, a})
		}
	}
	libraries = slices.DeleteFunc(libraries, func(l library) bool { return files[l.name] == 1 })
	for _, l := range libraries {
		seen := map[[2]string]bool{}
		for _, other := range libraries {
			if other.name != l.name || other == l {
				continue
			}
			for _, b := range by[other] {
				lacks := by[l][0].takes.File.Lacks(b.by.File, l.name)
				for _, a := range by[l] {
					pair := [2]string{a.by.File.Path, b.by.File.Path}
					if len(lacks) == 0 {
						break
					} else if a.start == b.start || seen[pair] || !meet(a.start, b.start) {
						continue
					}
					seen[pair] = true
					users := func(yield func(ask) bool) {
						for _, l := range libraries {
							for _, c := range by[l] {
								if l.name == a.name && (c.start == a.start || meet(a.start, c.start)) && !yield(c.ask) {
									return
								}
							}
						}
					}
					out = append(out, fault{key: strings.Join([]string{l.name, pair[0], pair[1]}, "\x00"),
						clash: true, helps: w.apart(a.ask, b.ask, lacks, users, false),
						tell: func() { w.conflict(a.ask, b.ask, lacks) }})
				}
			}
		}
	}
	return out
}

// meet reports whether two starts can be in one process: plugins with each other and with programs.
func meet(a, b *start) bool {
	o, p := a.plan.Object, b.plan.Object
	return (!o.program() || !p.program()) && o.ABI.Refuses(p.ABI) == "" &&
		(o.LibC == p.LibC || o.LibC == UnknownLibC || p.LibC == UnknownLibC)
}
