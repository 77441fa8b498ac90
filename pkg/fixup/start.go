package fixup

import (
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/loader"
)

// start is what the loader would do with the plans for a program of the tree, or for a library that none of the
// programs loads, as if a program opened it.
type start struct {
	plan   *Plan
	loads  map[*Plan]bool // files of the tree
	asks   []ask
	faults []fault
	found  []Surprise // see Index.verify
	err    error
}

// member is what is kept of an object of a start. There may be very many.
type member struct {
	name, path string
	file       *files.File // nil if nothing was found
	by         *member     // the first to ask for it
}

// ask is an object of a start that asks for a library by its name.
type ask struct {
	name      string
	by, takes *member
}

// fault is something that makes a start fail, or may: what is asked for is missing, or lacks versions.
type fault struct {
	*start
	ask
	need  *Need    // of the asking object; nil if it is not the tree's
	lacks []string // versions; nil: it is missing
	who   ask      // who needs them; if users is not nil, in another start that may be in one process with this one
	users iter.Seq[ask]
}

func (f *fault) missing() bool { return f.lacks == nil }

// clash reports whether it is a fault between starts that can be in one process.
func (f *fault) clash() bool { return f.users != nil }

func (f *fault) text() string {
	if f.missing() {
		return fmt.Sprintf("%s, which %s needs, is not found", f.name, f.by.path)
	}
	return fmt.Sprintf("%s lacks %s, which %s needs", f.takes.path, strings.Join(f.lacks, ", "), f.who.by.path)
}

func (s *start) loadsOneOf(plans map[*Plan]bool) bool {
	for p := range plans {
		if s.loads[p] {
			return true
		}
	}
	return false
}

// start asks the loader what one start would do.
func (w *loop) start(l *loader.Loader, p *Plan) *start {
	s := &start{plan: p, loads: map[*Plan]bool{p: true}}
	load, err := l.Start(p.Object.Real, p.runsOn(), loader.Environment{})
	if err != nil || load.Role == loader.Static {
		s.err = err
		return s
	}
	members := make(map[*loader.Object]*member, len(load.Objects))
	var of func(o *loader.Object) *member
	of = func(o *loader.Object) *member {
		m := members[o]
		if m == nil && o != nil {
			m = &member{name: o.Name, path: o.Path, file: o.File}
			if o.File != nil && strings.Contains(o.Path, "/../") { // each start spells it differently, and longer
				m.path = o.File.Path
			}
			members[o], m.by = m, of(o.NeededBy)
		}
		return m
	}
	for _, o := range load.Objects {
		by := of(o)
		from := w.of(by)
		if from != nil {
			s.loads[from] = true
			if p.Object.program() {
				s.found = append(s.found, compare(from, o, load, p, w.planned)...)
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
			a := ask{u.Name, by, of(u.To)}
			switch {
			case w.gone(load, u, n):
				s.faults = append(s.faults, fault{start: s, ask: a, need: n})
			case u.To.File != nil && u.To.File.Versioned() && !files.OfCLibrary(u.Name):
				s.asks = append(s.asks, a)
			case n != nil && n.inherited && !u.To.Found():
				if lib := w.r.ix.at(n.where); lib != nil && lib.Versioned() {
					a.takes = &member{name: u.Name, path: n.where, file: lib.File, by: by}
					s.asks = append(s.asks, a)
				}
			}
			var lacks []string
			for _, l := range u.To.Lacks {
				if l.By == o && !slices.Contains(lacks, l.Version) {
					lacks = append(lacks, l.Version)
				}
			}
			if len(lacks) > 0 {
				s.faults = append(s.faults, fault{start: s, ask: a, need: n, lacks: lacks, who: a})
			}
		}
	}
	if !p.Object.program() && p.Err == nil {
		s.found = append(s.found, compare(p, load.Main, load, p, w.planned)...)
	}
	return s
}

// of returns the plan of an object's file; nil for one that is not the tree's.
func (w *loop) of(o *member) *Plan {
	if o.file == nil {
		return nil
	}
	return w.planned[o.file.Path]
}

// chain is the run's choices that bring an object into a start, the nearest first.
func (w *loop) chain(o *member) iter.Seq[choice] {
	return func(yield func(choice) bool) {
		for o := o; o.by != nil; o = o.by {
			if p := w.of(o.by); p != nil {
				if n := p.need(o.name); n != nil && w.chosen(p, n) && w.r.taken(n) != nil && !yield(choice{p, n, o}) {
					return
				}
			}
		}
	}
}

// gone reports whether it is expected that an object of a start does not find what it uses. n is its need.
func (w *loop) gone(load *loader.Load, u loader.Use, n *Need) bool {
	main := w.planned[load.Main.File.Path]
	found := u.To.Found()
	if found && (w.r.today != nil || u.To.Rule != loader.ByCache && u.To.Rule != loader.ByDefault) {
		return false
	}
	switch {
	case driver.Provides(path.Base(u.Name)), files.OfCLibrary(u.Name) && (found || !load.Interp.Found):
		return false
	case !found && w.r.loadedBefore(main.Object, u.Name):
		return false
	case n != nil && (n.Outcome == Ignored || n.Outcome == Optional || n.Outcome == Absolute || n.Outcome == InLibC):
		return false
	case n != nil && n.inherited && !main.Object.program(): // it finds that only through a program of the tree
		return false
	case n != nil && (found && n.Outcome != Missing || n.Outcome == Found && !load.Interp.Found), w.r.ignored(u.Name):
		return false
	}
	// Nothing of the host is there in a build.
	return !found || w.r.in(main) != path.Dir(u.To.File.Path)
}

// helps yields the refusals of which one is enough. There may be very many, so they are made on demand.
func (w *loop) helps(f *fault) iter.Seq[*refusal] {
	switch {
	case f.missing():
		return w.finds(f)
	case f.clash():
		return w.apart(f, f.users)
	}
	return func(yield func(*refusal) bool) {
		n := f.need
		if n != nil && n.inherited && !yield(w.refusal(choice{plan: w.of(f.by), need: n},
			"is not what it finds with the new run paths")) {
			return
		}
		w.apart(f, func(yield func(ask) bool) {
			for _, b := range f.asks {
				if b.name == f.name && !yield(b) {
					return
				}
			}
		})(yield)
	}
}

// finds yields the refusals by which an object that does not find a library would find it, or would not be there.
func (w *loop) finds(f *fault) iter.Seq[*refusal] {
	return func(yield func(*refusal) bool) {
		n := f.need
		if n != nil && n.Outcome == BySystem &&
			!yield(w.refusal(choice{plan: w.of(f.by), need: n}, "is not found with the new run paths")) {
			return
		}
		for c := range w.chain(f.by) {
			x := w.refusal(c, "")
			x.why = func() string {
				why := fmt.Sprintf("needs %s, which is missing", f.name)
				for o := f.by; o.file.Path != x.object.Real && o.by != nil; o = o.by {
					why = fmt.Sprintf("needs %s, which %s", o.name, why)
				}
				return why
			}
			if !yield(x) {
				return
			}
		}
	}
}

// tell reports a fault that is left.
func (w *loop) tell(f *fault) {
	switch {
	case f.clash():
		w.conflict(f.ask, f.who, f.lacks)
	case f.missing() && w.of(f.by) == nil:
		w.lack(f.plan, w.chain(f.by), f.by, f.name)
	}
}

func (w *loop) refusal(c choice, why string) *refusal {
	return &refusal{choice: c, object: w.r.taken(c.need), why: func() string { return why }}
}

// apart yields the refusals by which what one object takes for a name would not meet another that needs more of it.
// users says for whom else it must work.
func (w *loop) apart(f *fault, users iter.Seq[ask]) iter.Seq[*refusal] {
	a, b, lacks := f.ask, f.who, f.lacks
	what := func() string { return fmt.Sprintf("%s that %s needs", strings.Join(lacks, ", "), b.by.path) }
	return func(yield func(*refusal) bool) {
		for c := range w.chain(a.takes) {
			if f.clash() && c.need.Outcome != Found { // it is not known which plugins are opened together
				continue
			}
			x := w.refusal(c, "")
			x.why = func() string {
				return fmt.Sprintf("brings %s, which lacks %s in the same process", a.takes.path, what())
			}
			if x.object.Real == a.takes.file.Path {
				x.why = func() string {
					return fmt.Sprintf("lacks %s, which %s needs in the same process", strings.Join(lacks, ", "), b.by.path)
				}
				x.does = func(lib *Object) bool {
					for u := range users {
						if !lib.Serves(u.by.file, a.name) {
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
		if !f.clash() || w.of(b.by) == nil {
			for c := range w.chain(b.by) {
				x := w.refusal(c, "")
				x.why = func() string { return fmt.Sprintf("meets %s, which lacks %s", a.takes.path, what()) }
				if !yield(x) {
					return
				}
			}
		}
	}
}

// faults returns all faults, first what is missing, last those between starts that can be in one process.
func (w *loop) faults() (out []*fault) {
	var later []*fault
	for _, s := range w.all {
		for i := range s.faults {
			if f := &s.faults[i]; f.missing() {
				out = append(out, f)
			} else {
				later = append(later, f)
			}
		}
	}
	return append(append(out, later...), w.clashes()...)
}

// user is a start that asks for a library.
type user struct {
	*start
	ask
}

// taken is a library that is taken for a name.
type taken struct {
	file  *files.File
	users []user
}

// rivals are the libraries that are taken for a name, if there are several. A process loads only the first that
// something asks for, so it must work for all.
func (w *loop) rivals(yield func(name string, libs []*taken) bool) {
	at, named := map[[2]string]*taken{}, map[string][]*taken{}
	var names []string
	for _, s := range w.all {
		for _, a := range s.asks {
			key := [2]string{a.name, a.takes.file.Path}
			l := at[key]
			if l == nil {
				if l = (&taken{file: a.takes.file}); named[a.name] == nil {
					names = append(names, a.name)
				}
				at[key], named[a.name] = l, append(named[a.name], l)
			}
			l.users = append(l.users, user{s, a})
		}
	}
	for _, name := range names {
		if len(named[name]) > 1 && !yield(name, named[name]) {
			return
		}
	}
}

// clash is a library that does not work for a start that takes another of its name. fails: that start fails if the
// library is loaded before.
type clash struct {
	name  string
	takes *taken
	fails user
	libs  []*taken
}

// pairs are all that clash, if they can be in one process.
func (w *loop) pairs(yield func(clash) bool) {
	for name, libs := range w.rivals {
		for _, l := range libs {
			for _, other := range libs {
				for _, u := range other.users {
					if other != l && !l.file.Serves(u.by.file, name) && !yield(clash{name, l, u, libs}) {
						return
					}
				}
			}
		}
	}
}

// clashing counts the pairs of starts of which one does not work with the other in one process, once for each file
// that would fail.
func (w *loop) clashing() (n int) {
	of := map[*taken]map[company]int{}
	for c := range w.pairs {
		if of[c.takes] == nil {
			starts := map[company]int{}
			for i, u := range c.takes.users {
				if i == 0 || u.start != c.takes.users[i-1].start {
					starts[u.start.company()]++
				}
			}
			of[c.takes] = starts
		}
		for company, starts := range of[c.takes] {
			if company.before(c.fails.company()) {
				n += starts
			}
		}
	}
	return n
}

// clashes are the faults between starts that can be in one process. Of several files of the tree with the same fault
// the first is enough, because the same helps against all.
func (w *loop) clashes() (out []*fault) {
	type pair struct {
		takes    *taken
		by, fail *files.File
	}
	had := map[pair]bool{}
	for c := range w.pairs {
		b, own := c.fails, w.of(c.fails.by) != nil
		for _, a := range c.takes.users {
			this, any := pair{c.takes, a.by.file, b.by.file}, pair{takes: c.takes, by: a.by.file}
			if own && had[any] || had[this] || a.start == b.start || !a.company().before(b.company()) {
				continue
			}
			had[this], had[any] = true, had[any] || own
			users := func(yield func(ask) bool) {
				for _, l := range c.libs {
					for _, u := range l.users {
						if (u.start == a.start || a.company().before(u.company())) && !yield(u.ask) {
							return
						}
					}
				}
			}
			lacks := c.takes.file.Lacks(b.by.file, c.name)
			out = append(out, &fault{start: a.start, ask: a.ask, lacks: lacks, who: b.ask, users: users})
		}
	}
	return out
}

// company is the other starts that can be in one process with a start.
type company struct {
	program bool
	abi     files.ABI
	libC    LibC
}

func (s *start) company() company {
	o := s.plan.Object
	return company{o.program(), o.abi, o.LibC}
}

// before reports whether a start can be in a process already when another comes to it. A plugin comes to programs and
// other plugins, and a program to nothing.
func (c company) before(other company) bool {
	return !other.program && c.abi.Refuses(other.abi) == "" &&
		(c.libC == other.libC || c.libC == UnknownLibC || other.libC == UnknownLibC)
}
