package fixup

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/runpath"
)

// A process loads one file for a name: the first that something asks for. So what one file
// takes must do for all that can be in a process with it: a program with what it needs, the
// plugins beside each other and with every program. Plugins are what no program of the tree
// loads. A library of the tree that needs what is missing comes behind those that do not. Where what one takes lacks a version that another needs, it gets the first candidate
// that has them all. Where it is not for the run to say what that one takes, because its run
// path stays or it is not in the tree, another candidate is looked for that does not bring the
// two together. Where none is left, a warning names both.

// asks is one file's need of a library of a name.
type asks struct {
	by   *Object
	plan *Plan // nil outside the tree
	need *Need // of the plan
	// takes is the file that it takes by itself.
	takes *Object
}

// chosen reports whether the run chooses what is taken: also of what the loader finds today for a
// file that cannot be loaded today, because of something else.
func (a *asks) chosen() bool {
	return a.need != nil && (a.need.Outcome == Found || !a.need.inherited && slices.ContainsFunc(a.plan.Needs, func(n *Need) bool { return n.Outcome == Found && n.Cause == loader.Needed }))
}

// unite makes the plans of files that can meet in a process take the same library where one
// does not do for all. Each round may bring in what other libraries need.
func (r *Resolver) unite(plans []*Plan) {
	for range 16 {
		if !r.uniteOnce(plans) {
			return
		}
	}
}

func (r *Resolver) uniteOnce(plans []*Plan) (changed bool) {
	u := union{r: r, plans: map[*Object]*Plan{}, next: map[*Object][]*Object{}, names: map[string][]asks{}}
	for _, p := range plans {
		if p.Skip == "" && p.Err == nil {
			u.plans[p.Object] = p
			u.list = append(u.list, p)
		}
	}
	if u.avoidBroken() {
		return true
	}
	if !u.collect() {
		return false
	}
	for _, chosen := range []bool{false, true} {
		for _, name := range u.order {
			for i := range u.names[name] {
				if a := &u.names[name][i]; a.chosen() == chosen {
					changed = u.settle(name, a) || changed
				}
			}
		}
		if changed {
			return true
		}
	}
	u.warn()
	return false
}

// avoidBroken takes other libraries for those of the tree that need what is missing, where there
// are such. It reports whether there were.
func (u *union) avoidBroken() (changed bool) {
	broken := map[*Object]string{}
	for _, p := range u.list {
		u.broken(p.Object, broken)
	}
	u.r.broken = broken
	for _, p := range u.list {
		for _, n := range p.Needs {
			if n.Outcome == Found && broken[n.Candidate.Object] != "" {
				changed = u.r.chooseAgain(p, n) || changed
			}
		}
	}
	return changed
}

// broken says, in all too, what is missing that a file of the tree needs, or what it loads; or "".
func (u *union) broken(o *Object, all map[*Object]string) string {
	p := u.plans[o]
	if why, known := all[o]; known || p == nil {
		return why
	}
	all[o] = ""
	for _, n := range p.Needs {
		if n.Outcome == Missing && n.Cause == loader.Needed {
			all[o] = fmt.Sprintf("needs %s, which is missing", n.Label())
			return all[o]
		}
	}
	for _, n := range p.Needs {
		if n.Outcome == Found && n.Cause == loader.Needed {
			if why := u.broken(n.Candidate.Object, all); why != "" {
				all[o] = fmt.Sprintf("needs %s, which %s", n.Name, why)
				return all[o]
			}
		}
	}
	return ""
}

// settle looks for something else where what one takes does not do for all. It reports whether
// there was something.
func (u *union) settle(name string, a *asks) (changed bool) {
	lacks := u.unmet(name, a)
	if len(lacks) == 0 {
		return false
	}
	meet := u.meet
	if a.need != nil && a.need.Outcome == BySystem {
		meet = u.together // which plugins are opened together is not known
	}
	if a.chosen() && slices.ContainsFunc(lacks, func(b asks) bool { return meet(a.by, b.by) }) {
		had := a.need.others
		a.need.others = u.with(name, a, meet)
		if u.r.chooseAgain(a.plan, a.need) {
			a.takes = a.need.Candidate.Object
			return true
		}
		a.need.others = had
	}
	for _, b := range lacks {
		why := fmt.Sprintf("%s, which lacks %s that %s needs", a.takes.Path, strings.Join(a.takes.Lacks(b.by.File, name), ", "), b.by.Path)
		if !a.chosen() && u.without(a.by, b.by, "brings "+why+" in the same process") {
			changed = true
		} else if u.without(b.by, a.by, "meets "+why) {
			changed = true
		}
	}
	return changed
}

// without takes other libraries for those that bring a file into a process with another, where
// there are such. A file of the tree stays where no program loads both: which plugins are opened
// together is not known.
func (u *union) without(o, other *Object, why string) (changed bool) {
	if u.plans[o] != nil && !u.together(o, other) {
		return false
	}
	for _, p := range u.list {
		for _, n := range p.Needs {
			if n.Outcome != Found || n.Cause != loader.Needed || !u.brings(n.Candidate.Object, o) || !u.meet(p.Object, other) {
				continue
			}
			had := n.refused
			n.refused = maps.Clone(had)
			if had == nil {
				n.refused = map[*Object]string{}
			}
			n.refused[n.Candidate.Object] = why
			if u.r.chooseAgain(p, n) {
				changed = true
			} else {
				n.refused = had
			}
		}
	}
	return changed
}

// brings reports whether a library is another, or loads it.
func (u *union) brings(lib, o *Object) bool {
	seen := map[*Object]bool{}
	var search func(*Object) bool
	search = func(at *Object) bool {
		if at == nil || seen[at] {
			return false
		}
		seen[at] = true
		return at == o || slices.ContainsFunc(u.loads(at), search)
	}
	return search(lib)
}

// chooseAgain takes another candidate for a need, and reports whether there is one.
func (r *Resolver) chooseAgain(p *Plan, n *Need) bool {
	again := *n
	again.Rejected = nil
	c, ok := r.choose(p, &again, path.Base(n.Name), false)
	if !ok {
		return false
	}
	n.Outcome, n.Candidate = Found, c
	had := n.Rejected
	n.Rejected = again.Rejected
	for _, reject := range had {
		if !slices.Contains(n.Rejected, reject) {
			n.Rejected = append(n.Rejected, reject)
		}
	}
	return true
}

// union is one round.
type union struct {
	r     *Resolver
	plans map[*Object]*Plan
	list  []*Plan
	next  map[*Object][]*Object // what a file loads
	names map[string][]asks     // of libraries with versions that the plans bring in
	order []string

	reached bool
	roots   map[*Object]map[*Object]bool // which programs and plugins load a file
	plugins map[*Object]bool             // what plugins load, and they themselves
}

// takes returns the file that a file of the tree gets for a need; nil where it takes none.
func (u *union) takes(n *Need) *Object {
	switch {
	case n.Cause != loader.Needed:
	case n.Outcome == Found:
		return n.Candidate.Object
	case n.Outcome == BySystem:
		return u.r.ix.open(u.r.ix.dir(path.Dir(n.Where)), path.Base(n.Where))
	}
	return nil
}

// loads returns what a file loads; of one outside the tree, what it takes by its own run path.
func (u *union) loads(o *Object) []*Object {
	if l, ok := u.next[o]; ok {
		return l
	}
	var out []*Object
	if p := u.plans[o]; p != nil {
		for _, n := range p.Needs {
			out = append(out, u.takes(n))
		}
	} else {
		for _, name := range o.Needed {
			out = append(out, u.r.ix.byItself(o, name))
		}
	}
	u.next[o] = out
	return out
}

// collect finds who asks for the libraries with versions that the plans bring into processes;
// false where there are none.
func (u *union) collect() bool {
	var outside []*Object
	seen := map[*Object]bool{}
	visit := func(lib *Object) {
		if lib != nil && u.plans[lib] == nil && !seen[lib] {
			seen[lib] = true
			outside = append(outside, lib)
		}
	}
	names := func(name string, lib *Object) {
		if lib != nil && lib.Versioned() && u.names[name] == nil {
			u.names[name] = []asks{}
			u.order = append(u.order, name)
		}
	}
	for _, p := range u.list {
		for _, n := range p.Needs {
			if n.Outcome == Found && n.Cause == loader.Needed {
				names(path.Base(n.Name), n.Candidate.Object)
				visit(n.Candidate.Object)
			}
		}
	}
	for i := 0; i < len(outside); i++ {
		for j, lib := range u.loads(outside[i]) {
			names(outside[i].Needed[j], lib)
			visit(lib)
		}
	}
	if len(u.names) == 0 {
		return false
	}
	for _, p := range u.list {
		for _, n := range p.Needs {
			if name := path.Base(n.Name); u.names[name] != nil && n.Cause == loader.Needed && (n.Outcome == Found || n.Outcome == BySystem) {
				u.names[name] = append(u.names[name], asks{p.Object, p, n, u.takes(n)})
			}
		}
	}
	for _, o := range outside {
		for i, lib := range u.loads(o) {
			if name := o.Needed[i]; u.names[name] != nil {
				u.names[name] = append(u.names[name], asks{o, nil, nil, lib})
			}
		}
	}
	return true
}

// byItself returns what a file takes for a name by its own run path.
func (ix *Index) byItself(o *Object, name string) *Object {
	for _, e := range runpath.Parse(o.List) {
		if lib := ix.takesIn(o, ix.entry(o, e), name); lib != nil {
			return lib
		}
	}
	return nil
}

// with returns those that ask for a name in a process with a, and need versions of it.
func (u *union) with(name string, a *asks, meet func(a, b *Object) bool) (out []asks) {
	for _, b := range u.names[name] {
		if b.by != a.by && b.by.needsVersions(name) && meet(a.by, b.by) {
			out = append(out, b)
		}
	}
	return out
}

// unmet returns those of with that a file does not do for.
func (u *union) unmet(name string, a *asks) (out []asks) {
	takes := a.takes
	if takes == nil || !takes.Versioned() {
		return nil
	}
	for _, b := range u.names[name] {
		if b.by != a.by && b.takes != takes && len(takes.Lacks(b.by.File, name)) > 0 && u.meet(a.by, b.by) {
			out = append(out, b)
		}
	}
	return out
}

func (o *Object) needsVersions(name string) bool {
	return slices.ContainsFunc(o.VersionsNeeded(), func(v elfimage.Version) bool { return v.Library == name && !v.Weak })
}

// meet reports whether two files can be in one process.
func (u *union) meet(a, b *Object) bool {
	if a.ABI.Refuses(b.ABI) != "" || a.LibC != b.LibC && a.LibC != UnknownLibC && b.LibC != UnknownLibC {
		return false
	}
	return u.together(a, b) || u.plugins[a] || u.plugins[b]
}

// together reports whether a program of the tree, or a plugin, loads two files.
func (u *union) together(a, b *Object) bool {
	if !u.reached {
		u.reach()
	}
	for p := range u.roots[a] {
		if u.roots[b][p] {
			return true
		}
	}
	return false
}

// reach finds what each program and the plugins load.
func (u *union) reach() {
	u.reached, u.roots, u.plugins = true, map[*Object]map[*Object]bool{}, map[*Object]bool{}
	var walk func(root, o *Object)
	walk = func(root, o *Object) {
		if o == nil || u.roots[o][root] {
			return
		}
		if u.roots[o] == nil {
			u.roots[o] = map[*Object]bool{}
		}
		u.roots[o][root] = true
		u.plugins[o] = u.plugins[o] || !root.program()
		for _, lib := range u.loads(o) {
			walk(root, lib)
		}
	}
	for o := range u.plans {
		if o.program() {
			walk(o, o)
		}
	}
	var plugins []*Object
	for o := range u.plans {
		if u.roots[o] == nil {
			plugins = append(plugins, o)
		}
	}
	for _, o := range plugins {
		walk(o, o)
	}
}

// warn says of each name, once, for whom what another takes does not do.
func (u *union) warn() {
	for _, name := range u.order {
		if p, text := u.conflict(name); p != nil && !slices.Contains(p.Warnings, text) {
			p.Warnings = append(p.Warnings, text)
		}
	}
}

func (u *union) conflict(name string) (*Plan, string) {
	all := u.names[name]
	for i := range all {
		a := &all[i]
		for _, b := range u.unmet(name, a) {
			if a.plan != nil && b.plan != nil && !a.chosen() && !b.chosen() {
				continue // none of the two is ours to change
			}
			p := cmp.Or(a.plan, b.plan)
			for _, by := range u.list {
				if p == nil && slices.ContainsFunc(u.loads(by.Object), func(lib *Object) bool { return u.brings(lib, a.by) }) {
					p = by
				}
			}
			return p, fmt.Sprintf("%s: %s takes %s, which lacks %s that %s needs: in a process that loads both, this one fails if the other comes first",
				name, a.by.Path, a.takes.Path, strings.Join(a.takes.Lacks(b.by.File, name), ", "), b.by.Path)
		}
	}
	return nil, ""
}
