package fixup

import (
	"fmt"
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
// loads. Where what one takes lacks a version that another needs, it gets the first candidate
// that has them all; where none has, a warning names both.

// asks is one file's need of a library of a name.
type asks struct {
	by   *Object
	plan *Plan // nil outside the tree
	need *Need // of the plan
	// takes is the file that it takes by itself.
	takes *Object
}

// unite makes the plans of files that can meet in a process take the same library where one
// does not do for all. Each round may bring in what other libraries need.
func (r *Resolver) unite(plans []*Plan) {
	for range 8 {
		if !r.uniteOnce(plans) {
			return
		}
	}
}

func (r *Resolver) uniteOnce(plans []*Plan) (changed bool) {
	u := union{r: r, plans: map[*Object]*Plan{}, names: map[string][]asks{}}
	for _, p := range plans {
		if p.Skip == "" && p.Err == nil {
			u.plans[p.Object] = p
		}
	}
	if !u.collect(plans) {
		return false
	}
	for _, name := range u.order {
		all := u.names[name]
		for i := range all {
			a := &all[i]
			lacks := u.unmet(name, a, a.takes)
			if len(lacks) == 0 || a.need == nil || a.need.Outcome != Found {
				continue
			}
			again := *a.need
			again.Rejected, again.others = nil, u.with(name, a)
			if c, ok := r.choose(a.by, a.plan.in, &again, name, false); ok {
				again.Outcome, again.Candidate = Found, c
				again.Rejected = append(again.Rejected, a.need.Rejected...)
				*a.need, a.takes, changed = again, c.Object, true
			}
		}
	}
	if !changed {
		u.warn()
	}
	return changed
}

// union is one round.
type union struct {
	r     *Resolver
	plans map[*Object]*Plan
	names map[string][]asks // of libraries with versions that some plan adds
	order []string

	reached  bool
	programs map[*Object]map[*Plan]bool // which programs load a file
	plugins  map[*Object]bool           // what plugins load, and they themselves
}

// collect finds who asks for the libraries that the plans add; false where none has versions.
func (u *union) collect(plans []*Plan) bool {
	var queue []*Object
	seen := map[*Object]bool{}
	for _, p := range plans {
		if u.plans[p.Object] == nil {
			continue
		}
		for _, n := range p.Needs {
			if n.Outcome != Found || n.Cause != loader.Needed {
				continue
			}
			lib := n.Candidate.Object
			if name := path.Base(n.Name); lib.Versioned && u.names[name] == nil {
				u.names[name] = []asks{}
				u.order = append(u.order, name)
			}
			if u.plans[lib] == nil && !seen[lib] {
				seen[lib] = true
				queue = append(queue, lib)
			}
		}
	}
	if len(u.names) == 0 {
		return false
	}
	for _, p := range plans {
		if u.plans[p.Object] == nil {
			continue
		}
		for _, n := range p.Needs {
			name := path.Base(n.Name)
			if n.Cause != loader.Needed || u.names[name] == nil {
				continue
			}
			switch n.Outcome {
			case Found:
				u.names[name] = append(u.names[name], asks{p.Object, p, n, n.Candidate.Object})
			case BySystem:
				u.names[name] = append(u.names[name], asks{p.Object, p, n, u.r.ix.open(u.r.ix.dir(path.Dir(n.Where)), name)})
			}
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		o := queue[0]
		for _, name := range o.Needed {
			lib := u.r.byItself(o, name)
			if u.names[name] != nil {
				u.names[name] = append(u.names[name], asks{o, nil, nil, lib})
			}
			if lib != nil && u.plans[lib] == nil && !seen[lib] {
				seen[lib] = true
				queue = append(queue, lib)
			}
		}
	}
	return true
}

// byItself returns what a library outside the tree takes for a name by its own run path.
func (r *Resolver) byItself(o *Object, name string) *Object {
	for _, e := range runpath.Parse(o.List) {
		if lib := r.takesIn(o, r.entry(o, e), name); lib != nil {
			return lib
		}
	}
	return nil
}

// with returns those that ask for a name in a process with a, and need versions of it.
func (u *union) with(name string, a *asks) (out []asks) {
	for _, b := range u.names[name] {
		if b.by != a.by && b.by.needsVersions(name) && u.meet(a.by, b.by) {
			out = append(out, b)
		}
	}
	return out
}

// unmet returns those of with that a file does not do for.
func (u *union) unmet(name string, a *asks, takes *Object) (out []asks) {
	if takes == nil || !takes.Versioned {
		return nil
	}
	for _, b := range u.names[name] {
		if b.by != a.by && b.takes != takes && len(takes.lacks(b.by, name)) > 0 && u.meet(a.by, b.by) {
			out = append(out, b)
		}
	}
	return out
}

func (o *Object) needsVersions(name string) bool {
	return slices.ContainsFunc(o.Needs, func(v elfimage.Version) bool { return v.Library == name && !v.Weak })
}

// meet reports whether two files can be in one process.
func (u *union) meet(a, b *Object) bool {
	if a.ABI.Refuses(b.ABI) != "" || a.LibC != b.LibC && a.LibC != UnknownLibC && b.LibC != UnknownLibC {
		return false
	}
	if !u.reached {
		u.reach()
	}
	if u.plugins[a] || u.plugins[b] {
		return true
	}
	for p := range u.programs[a] {
		if u.programs[b][p] {
			return true
		}
	}
	return false
}

// reach finds what each program and the plugins load.
func (u *union) reach() {
	u.reached, u.programs, u.plugins = true, map[*Object]map[*Plan]bool{}, map[*Object]bool{}
	var walk func(o *Object, seen func(*Object) bool)
	walk = func(o *Object, seen func(*Object) bool) {
		if o == nil || seen(o) {
			return
		}
		if p := u.plans[o]; p != nil {
			for _, n := range p.Needs {
				if n.Outcome == Found && n.Cause == loader.Needed {
					walk(n.Candidate.Object, seen)
				} else if n.Outcome == BySystem {
					walk(u.r.ix.open(u.r.ix.dir(path.Dir(n.Where)), path.Base(n.Where)), seen)
				}
			}
			return
		}
		for _, name := range o.Needed {
			walk(u.r.byItself(o, name), seen)
		}
	}
	for o, p := range u.plans {
		if o.program() {
			walk(o, func(o *Object) bool {
				if u.programs[o] == nil {
					u.programs[o] = map[*Plan]bool{}
				}
				done := u.programs[o][p]
				u.programs[o][p] = true
				return done
			})
		}
	}
	for o := range u.plans {
		if u.programs[o] == nil {
			walk(o, func(o *Object) bool {
				done := u.plugins[o]
				u.plugins[o] = true
				return done
			})
		}
	}
}

// warn says of each name, once, for whom what another takes does not do.
func (u *union) warn() {
	for _, name := range u.order {
		if p, text := u.conflict(name); p != nil {
			p.Warnings = append(p.Warnings, text)
		}
	}
}

func (u *union) conflict(name string) (*Plan, string) {
	all := u.names[name]
	for i := range all {
		a := &all[i]
		for _, b := range u.unmet(name, a, a.takes) {
			p := a.plan
			if p == nil {
				p = b.plan
			}
			if p == nil || !(a.need != nil && a.need.Outcome == Found || b.need != nil && b.need.Outcome == Found) {
				continue // none of the two is ours to change
			}
			return p, fmt.Sprintf("%s: %s takes %s, which lacks %s that %s needs: in a process that loads both, this one fails if the other comes first",
				name, a.by.Path, a.takes.Path, strings.Join(a.takes.lacks(b.by, name), ", "), b.by.Path)
		}
	}
	return nil, ""
}
