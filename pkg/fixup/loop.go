package fixup

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/remedy"
)

// The first candidate for each need, in nixpkgs' order, is proposed. The model of a process says what each start
// would do with the run paths that lead to them. If something fails with a candidate, that is refused for the file
// that asks for it, if there is another, until nothing changes. Then the refusals that make no difference, or make
// things worse, are taken back. No candidate is refused to a file twice, so there is an end.

// loop is one run.
type loop struct {
	r        *Resolver
	jobs     int
	plans    []*Plan
	planned  map[string]*Plan // by Object.Real
	starts   map[*Plan]*start
	all      []*start // those that count, programs first
	refusals []*refusal
	asked    map[*Plan]planned
	today    map[*Plan]bool // whether it fails, see fails
}

// planned is the part of a plan with which the starts were asked.
type planned struct {
	State
	left bool // not worked on: it has an error, or is skipped
}

// choice is the run's choice for a file's need.
type choice struct {
	plan  *Plan
	need  *Need
	gives *member // what a start gets by it, in a chain
}

// refusal is a candidate that may be refused if another one works.
type refusal struct {
	choice
	object *Object
	why    func() string
	does   func(*Object) bool // nil: any
}

// loop makes the plans go together. What an earlier run over the tree has chosen for files that can be in one process
// stays.
func (r *Resolver) loop(plans []*Plan, jobs int, again bool) {
	w := &loop{r: r, jobs: jobs, planned: map[string]*Plan{}, starts: map[*Plan]*start{}, asked: map[*Plan]planned{},
		today: map[*Plan]bool{}}
	for _, p := range plans {
		if p.Skip == "" && p.Object.err == nil {
			w.plans = append(w.plans, p)
			w.planned[p.Object.Real] = p
		}
	}
	w.ask(nil)
	first := w.state()
	for more := true; more; more = w.retry() {
		for w.refuse(!again) {
		}
	}
	if again && !w.state().fewer(first) { // the new choices are no better than the old
		for _, x := range w.refusals {
			delete(x.need.refused, x.object)
			r.propose(x.plan)
		}
		w.ask(nil)
	}
	for w.spoils(first) {
	}
	for _, f := range w.faults() {
		w.tell(f)
	}
	if !r.s.Mode.ByHand() {
		w.worse()
	}
	r.ix.asked = w
}

func (p *Plan) planned() planned { return planned{p.State(), !p.stands()} }

// surprises is what the starts said before, asked again if something in them has changed since.
func (w *loop) surprises() (out []Surprise) {
	changed := map[*Plan]bool{}
	for _, p := range w.plans {
		if w.asked[p] != p.planned() {
			changed[p] = true
		}
	}
	if len(changed) > 0 {
		w.ask(changed)
	}
	seen := map[Surprise]bool{}
	for _, s := range w.all {
		if !s.plan.stands() {
			continue
		}
		if s.err != nil {
			out = append(out, Surprise{plan: s.plan, err: s.err})
		}
		for _, f := range s.found {
			if f.plan.stands() && !seen[f] {
				seen[f], out = true, append(out, f)
			}
		}
	}
	return out
}

// refuse refuses a candidate for each fault, if another one works. Faults of several starts count only with clashes.
// It reports whether it refused any.
func (w *loop) refuse(clashes bool) bool {
	changed := map[*Plan]bool{}
	hopeless := map[*member]bool{} // nothing helps what brought it, either
	missing := false
	for _, f := range w.faults() {
		if f.clash() && !clashes || missing && !f.missing() {
			break // the other faults may be different then
		}
		var none []*member
		for x := range w.helps(f) {
			if f.missing() && hopeless[x.gives] {
				break
			}
			if none = append(none, x.gives); changed[x.plan] {
				none = nil
				break
			}
			if w.another(x) && w.take(x) {
				changed[x.plan], missing, none = true, missing || f.missing(), nil
				break
			}
		}
		for _, o := range none {
			hopeless[o] = f.missing() && o != nil
		}
	}
	if len(changed) > 0 {
		w.ask(changed)
	}
	return len(changed) > 0
}

// another reports whether there is a candidate other than the one that may be refused.
func (w *loop) another(x *refusal) bool {
	if x.object == nil || x.need.tried[x.object] {
		return x.object == nil && !x.need.tried[nil]
	}
	name := path.Base(x.need.Name)
	for c := range w.r.candidates(x.plan, name, everywhere) {
		if c.object != x.object && w.r.refuseFor(x.plan, x.need, name, c) == "" && (x.does == nil || x.does(c.object)) {
			return true
		}
	}
	return false
}

// take makes a refusal, unless no run path leads to the remaining candidates.
func (w *loop) take(x *refusal) bool {
	n, had := x.need, x.plan.Err
	if n.refused == nil {
		n.refused, n.tried = map[*Object]string{}, map[*Object]bool{}
	}
	n.refused[x.object], n.tried[x.object] = x.why(), true
	if w.r.propose(x.plan); x.plan.Err != nil && had == nil {
		delete(n.refused, x.object)
		delete(n.tried, x.object) // other refusals may be taken back
		w.r.propose(x.plan)
		return false
	}
	x.why, x.does, x.gives = nil, nil, nil // they hold a whole start
	w.refusals = append(w.refusals, x)
	return true
}

// retry takes back, one by one, the refusals without which nothing is worse. It takes several back at once if that
// changes nothing. It reports whether there was one.
func (w *loop) retry() (changed bool) {
	at := map[*Plan]int{}
	for i, p := range w.plans {
		at[p] = i
	}
	slices.SortStableFunc(w.refusals, func(a, b *refusal) int { return at[a.plan] - at[b.plan] })
	best, left := w.state(), w.refusals
	w.refusals = nil
	var back func(some []*refusal)
	back = func(some []*refusal) {
		starts, all, why, plans := maps.Clone(w.starts), w.all, make([]string, len(some)), map[*Plan]bool{}
		for i, x := range some {
			why[i], plans[x.plan] = x.need.refused[x.object], true
			delete(x.need.refused, x.object)
		}
		propose := func() {
			for _, p := range w.plans {
				if plans[p] {
					w.r.propose(p)
				}
			}
		}
		propose()
		w.ask(plans)
		if now := w.state(); len(some) == 1 && now.noWorse(best) || now.same(best) {
			best, changed = now, true
			return
		}
		for i, x := range some {
			x.need.refused[x.object] = why[i]
		}
		propose()
		w.starts, w.all = starts, all
		for p := range plans {
			w.asked[p] = p.planned()
		}
		if half := len(some) / 2; half > 0 {
			back(some[:half])
			back(some[half:])
			return
		}
		w.refusals = append(w.refusals, some...)
	}
	if len(left) > 0 {
		back(left)
	}
	return changed
}

// state is what fails, to be compared.
type state struct {
	starts  map[*Plan]*start
	errs    map[*Plan]bool // of starts: the plan has an error
	clashes int            // see clashing
}

func (w *loop) state() state {
	s := state{make(map[*Plan]*start, len(w.all)), map[*Plan]bool{}, w.clashing()}
	for _, at := range w.all {
		if s.starts[at.plan] = at; at.plan.Err != nil {
			s.errs[at.plan] = true
		}
	}
	return s
}

// same reports whether each start has the same failures.
func (s state) same(as state) bool {
	if len(s.starts) != len(as.starts) || s.clashes != as.clashes || !maps.Equal(s.errs, as.errs) {
		return false
	}
	for p, was := range as.starts {
		if is := s.starts[p]; is != was && (is == nil || !maps.Equal(is.failures(), was.failures())) {
			return false
		}
	}
	return true
}

// fails reports whether a start fails; is reports whether it is a start.
func (s state) fails(p *Plan) (fails, is bool) {
	at := s.starts[p]
	return at != nil && len(at.faults) > 0 || s.errs[p], at != nil
}

// noWorse reports whether no further start fails, and there are no more failures in all, unless fewer starts fail.
// One fault for another is no worse. A library is a start only while no program loads it, and counts only if it was
// one before.
func (s state) noWorse(than state) bool {
	more := s.clashes - than.clashes
	for p, was := range than.starts {
		did, _ := than.fails(p)
		does, is := s.fails(p)
		if does && is && !did {
			return false
		}
		if is {
			more += len(s.starts[p].failures()) - len(was.failures())
			if s.errs[p] && !than.errs[p] {
				more++
			}
		}
	}
	return more <= 0 || s.fewer(than)
}

// failures are the names with which a start fails, and the files that ask for them.
func (s *start) failures() map[[2]string]bool {
	had := map[[2]string]bool{}
	for _, f := range s.faults {
		had[[2]string{f.name, path.Base(f.by.path)}] = true
	}
	return had
}

// fewer reports whether a start that failed no longer does.
func (s state) fewer(than state) bool {
	for p := range than.starts {
		did, _ := than.fails(p)
		if does, is := s.fails(p); did && is && !does {
			return true
		}
	}
	return false
}

// spoils leaves files as they are if their new state makes a start fail that would otherwise work: by hand without
// the run, in a build with the first candidates, nixpkgs'. It reports whether there was one.
func (w *loop) spoils(first state) bool {
	changed := map[*Plan]bool{}
	for _, s := range w.all {
		failed, was := first.fails(s.plan)
		if len(s.faults) == 0 || w.r.today == nil && (failed || !was) {
			continue
		}
		if w.fails(s.plan) {
			continue
		}
		for p := range s.loads {
			if p.Changes() && p.Err == nil {
				p.Err = fmt.Errorf("left as it is: with its new libraries, %s could no longer be loaded: %s",
					s.plan.Object.Path, s.faults[0].text())
				changed[p] = true
			}
		}
	}
	if len(changed) > 0 {
		w.ask(changed)
	}
	return len(changed) > 0
}

// ask asks what the starts that load a file with a changed plan would do; nil for all starts.
func (w *loop) ask(changed map[*Plan]bool) {
	l := w.r.ix.view(w.plans)
	for _, p := range w.plans {
		if changed == nil || changed[p] {
			w.asked[p] = p.planned()
		}
	}
	look := func(plans []*Plan) (out []*start) {
		var again []*Plan
		for _, p := range plans {
			if s := w.starts[p]; s == nil || changed == nil || s.loadsOneOf(changed) {
				again = append(again, p)
			}
		}
		answers := make([]*start, len(again))
		several(len(again), w.jobs, func(i int) { answers[i] = w.start(l, again[i]) })
		for i, p := range again {
			w.starts[p] = answers[i]
		}
		for _, p := range plans {
			out = append(out, w.starts[p])
		}
		return out
	}
	var programs, libraries []*Plan
	for _, p := range w.plans {
		switch {
		case !p.Object.program():
			libraries = append(libraries, p)
		case l.Interpreter(p.State().Interpreter, p.Object.abi).Why == "": // else nothing starts it here
			programs = append(programs, p)
		}
	}
	w.all = look(programs)
	loaded := map[*Plan]bool{}
	for _, s := range w.all {
		maps.Copy(loaded, s.loads)
	}
	w.all = append(w.all, look(slices.DeleteFunc(libraries, func(p *Plan) bool { return loaded[p] }))...)
}

// given reports whether a library is in a directory that was named as a directory of libraries.
func (r *Resolver) given(file string) bool {
	at := path.Dir(file)
	return slices.ContainsFunc(r.ix.levels[2].dirs, func(d *dir) bool { return d.path == at || d.real == at })
}

// taken is what a need gets; nil for what is inherited.
func (r *Resolver) taken(n *Need) *Object {
	switch {
	case n.Outcome == Found:
		return n.Candidate.object
	case n.inherited:
		return nil
	}
	return r.ix.at(n.where)
}

// need returns a file's need for a name in its DT_NEEDED; nil for none.
func (p *Plan) need(name string) *Need {
	for _, n := range p.Needs {
		if n.Cause == loader.Needed && n.names[0] == name {
			return n
		}
	}
	return nil
}

// chosen reports whether the run decides what a need gets. That includes what the loader finds today for a file that
// cannot be loaded today for another reason.
func (w *loop) chosen(p *Plan, n *Need) bool {
	found := func(n *Need) bool { return n.Outcome == Found && n.Cause == loader.Needed }
	if n.Outcome != BySystem || n.inherited {
		return n.Outcome == Found
	}
	return slices.ContainsFunc(p.Needs, found) || w.fails(p)
}

// fails reports whether a file cannot be loaded on its own today.
func (w *loop) fails(p *Plan) bool {
	if w.r.today == nil {
		return false
	}
	fails, known := w.today[p]
	if !known {
		fails = len(w.start(w.r.ix.loader, p).faults) > 0
		w.today[p] = fails
	}
	return fails
}

// conflict says, once for each name, for which files what another takes does not work.
func (w *loop) conflict(a, b ask, lacks []string) {
	if !w.gets(a.by) && !w.gets(b.by) {
		return
	}
	p := cmp.Or(w.of(a.by), w.of(b.by))
	for _, by := range []*member{a.by, b.by} {
		for c := range w.chain(by) {
			p = cmp.Or(p, c.plan)
		}
	}
	told := func(text string) bool { return strings.HasPrefix(text, a.name+": ") }
	if p == nil || slices.ContainsFunc(w.plans, func(p *Plan) bool { return slices.ContainsFunc(p.Conflicts, told) }) {
		return
	}
	p.Conflicts = append(p.Conflicts, fmt.Sprintf(
		"%s: %s takes %s, which lacks %s that %s needs: in a process that loads both, "+
			"this one fails if the other comes first", a.name, a.by.path, a.takes.path, strings.Join(lacks, ", "), b.by.path))
}

// worse says, once for each name, that a program or plugin could not load a plugin that it can load with what
// nixpkgs' program takes. A library that others ask for by name is no plugin.
func (w *loop) worse() {
	needed, theirs, told := map[string]bool{}, map[*Plan]*start{}, map[string]bool{}
	for _, p := range w.plans {
		for _, n := range p.Needs {
			needed[n.names[0]] = true
		}
	}
	with := sync.OnceValue(func() *loader.Loader { return w.r.asNixpkgs(w.plans) })
	works := func(s *start) *start { // nil if it does not work either way
		if o := s.plan.Object; len(s.faults) > 0 || !o.program() && (needed[o.Soname] || needed[path.Base(o.Path)]) {
			return nil
		}
		if theirs[s.plan] == nil {
			theirs[s.plan] = w.start(with(), s.plan)
		}
		if len(theirs[s.plan].faults) > 0 {
			return nil
		}
		return theirs[s.plan]
	}
	for c := range w.pairs {
		b := c.fails
		second := works(b.start)
		if told[c.name] || second == nil {
			continue
		}
		for _, a := range c.takes.users {
			first := works(a.start)
			if first == nil || a.start == b.start || !a.company().before(b.company()) || first.spoils(second) {
				continue
			}
			if told[c.name] = true; w.r.ignored(c.name) {
				w.r.accepted = append(w.r.accepted, c.name)
				break
			}
			fix := remedy.Say("autoPatchelfIgnoreMissingDeps = [ %s ] if they are never in one process",
				remedy.NixPattern(c.name))
			b.plan.Worse = fmt.Errorf("%s can load it with the libraries that nixpkgs' program takes, and not with these: "+
				"%s takes %s, which lacks %s that %s needs; fix: give the package one %s that does for both; or %s",
				a.plan.Object.Path, a.by.path, a.takes.path, strings.Join(c.takes.file.Lacks(b.by.file, c.name), ", "),
				b.by.path, c.name, fix)
			break
		}
	}
}

// spoils reports whether another start fails if what this one takes is loaded before.
func (s *start) spoils(other *start) bool {
	return slices.ContainsFunc(s.asks, func(a ask) bool {
		return slices.ContainsFunc(other.asks, func(b ask) bool {
			return a.name == b.name && !a.takes.file.Serves(b.by.file, b.name)
		})
	})
}

// gets reports whether a start in which a file asks for a library gets what it lacked. Nothing changes in other
// starts.
func (w *loop) gets(by *member) bool {
	found := func(n *Need) bool { return n.Outcome == Found && n.Cause == loader.Needed }
	for _, s := range w.all {
		if slices.ContainsFunc(s.asks, func(a ask) bool { return a.by.file.Path == by.file.Path }) {
			for p := range s.loads {
				if slices.ContainsFunc(p.Needs, found) {
					return true
				}
			}
		}
	}
	return false
}

// lack records that a file outside the tree lacks a library, if the run has led to the file, or was given it.
func (w *loop) lack(p *Plan, chain iter.Seq[choice], by *member, name string) {
	l := Lack{name: by.name, path: by.path, by: by.path, names: []string{name}}
	var nearest choice
	for c := range chain {
		nearest = c
		break
	}
	if n := nearest.need; n != nil && n.Outcome == Found {
		if p = nearest.plan; n.Candidate.object.Real != by.file.Path {
			l.name, l.path = n.Name, n.Candidate.Path
		}
	} else if !w.r.given(by.file.Path) {
		return
	}
	for _, other := range w.plans {
		for i := range other.lacks {
			if had := &other.lacks[i]; had.by == l.by {
				if !slices.Contains(had.names, name) {
					had.names = append(had.names, name)
				}
				return
			}
		}
	}
	p.lacks = append(p.lacks, l)
}
