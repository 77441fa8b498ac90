package fixup

import (
	"debug/elf"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/runpath"
)

// list makes the run path that the needs ask for. It has RuntimeDependencies, the directory of each library in the
// order of the needs, and AppendRunpaths, each once. With Repair the file's own entries come before those of the
// needs. If nothing is asked for, the run path stays.
func (r *Resolver) list(p *Plan) {
	o := p.Object
	p.Set, p.After, p.tag, p.Dropped, p.Lost = nil, p.before, o.Tag, nil, nil
	l := make(runpath.List, 0, len(r.first)+len(p.Needs)+len(r.last)+2)
	if o.program() || r.s.Dlopen {
		l = append(l, r.first...)
	}
	origins := r.originEntries(o)
	if r.s.Mode == Repair {
		l = append(l, r.kept(p)...)
	}
	asked := len(r.last) > 0 || r.s.Tag == elf.DT_RPATH || r.s.Minimal || len(r.first) > 0 && (o.program() || r.s.Dlopen)
	for _, n := range p.Needs {
		switch n.Outcome {
		case Found:
			l, asked = append(l, r.spell(o, n.Candidate.Dir, origins)), true
		case ByDriver:
			asked = true
		}
	}
	l = append(l, r.last...)
	if r.s.Mode == BuildOrigins {
		for _, e := range origins {
			l = append(l, e)
		}
	}
	l, opens := r.opened(p, l, origins)
	asked = asked || opens
	if r.s.Relativize && r.s.Mode != Repair {
		for i, e := range l {
			l[i] = r.relative(o, e)
		}
	}
	switch {
	case r.s.Mode == Repair && !asked:
		l, p.Lost = nil, nil
	case r.s.Mode == Repair && o.Tag == elf.DT_NULL:
		// A file with a DT_RUNPATH inherits no DT_RPATH.
		for _, n := range p.Needs {
			if n.inherited && r.pin(n) {
				l = append(l, r.spell(o, n.Candidate.Dir, origins))
			}
		}
	}
	l = unique(l)
	if len(l) > 0 || len(p.Lost) > 0 {
		entries := r.ordered(p, r.entries(o, l))
		if l = texts(entries); r.s.Minimal {
			l, p.Dropped = r.minimal(p, l, entries)
		}
		p.Set, p.After = l, l
		if o.Tag != elf.DT_RPATH || r.s.Mode != Repair {
			p.tag = elf.DT_RUNPATH
		}
	}
	if r.s.Map != nil {
		p.After = r.s.Map(o, p.After)
		p.mapped = len(p.After) != len(p.Set)
	}
	switch p.stays = r.s.Mode == Repair && r.s.Tag == elf.DT_NULL && slices.Equal(p.After, p.before); {
	case len(p.After) == 0:
		p.tag = elf.DT_NULL
	case r.s.Tag != elf.DT_NULL:
		p.tag = r.s.Tag
	case !p.stays && (p.tag == elf.DT_NULL || r.s.Map != nil && r.s.Mode != Repair):
		p.tag = elf.DT_RUNPATH
	}
}

// opensItsParts reports whether a file may find its own parts beside it by an entry that a build takes out. cuDNN so
// finds its engines, and libnvrtc its built-in functions.
func opensItsParts(o *Object) bool {
	return runpath.HasOrigin(o.List) && driver.Toolkit(o.Soname)
}

// opened puts into a list the directories of the CUDA toolkit's libraries that a file names in read-only data. The
// tree's go before others that hold such a library, and the rest behind all. Settings.Opened adds those that its
// $ORIGIN entries lead to. Without it, only what the file names and finds by an $ORIGIN entry stays. asked reports
// whether any was put in.
func (r *Resolver) opened(p *Plan, l runpath.List, origins []string) (after runpath.List, asked bool) {
	o := p.Object
	if p.Opens = nil; len(o.literals) == 0 && !r.s.Opened {
		return l, false
	}
	now := l
	if len(now) == 0 {
		now = p.before // nothing replaces it
	}
	entries, led := r.entries(o, now), r.entries(o, origins)
	far := inTree
	if r.s.Opened {
		far = everywhere
	}
	add := func(at int, dir, why string, own bool) {
		entries = slices.Insert(entries, at, r.ix.entry(o, r.spell(o, dir, origins)))
		if !own {
			p.Opens = append(p.Opens, Opened{dir, why})
		}
	}
	for _, name := range o.literals {
		if !driver.Toolkit(name) || slices.Contains(o.Needed, name) {
			continue
		}
		at := slices.IndexFunc(entries, func(e entry) bool { return r.ix.takesIn(o, e, name) != nil })
		if at >= 0 && r.s.Mode == Repair {
			continue
		}
		c, ok := r.choose(p, &Need{}, name, far)
		switch {
		case !ok, !r.s.Opened && !slices.ContainsFunc(led,
			func(e entry) bool { return r.ix.takesIn(o, e, name) == c.object }):
			continue
		case at < 0:
			at = len(entries)
		case !c.own || r.ix.takesIn(o, entries[at], name) == c.object:
			continue
		}
		add(at, c.Dir, name+" is opened by name", c.own)
	}
	if r.s.Opened {
		own := len(led)
		for i, e := range append(led, r.inWheels(o)...) {
			if e.dir != nil && e.dir.real != path.Dir(o.Real) && !r.ix.sources.Stubs.Contains(e.dir.real) &&
				slices.ContainsFunc(e.dir.names(), driver.Toolkit) &&
				!slices.ContainsFunc(entries, func(had entry) bool { return had.dir != nil && had.dir.real == e.dir.real }) {
				add(len(entries), e.dir.real, e.text+" leads to another wheel", i < own)
			}
		}
	}
	if len(entries) == len(now) {
		return l, false
	}
	return texts(entries), true
}

// temporary returns the entry that would lead into a directory of the build.
func (r *Resolver) temporary(p *Plan) error {
	for _, dir := range r.s.Temporary {
		if below(p.Object.Real, dir) {
			continue
		}
		for _, e := range p.After {
			if below(runpath.Key(e), runpath.Key(dir)) {
				return fmt.Errorf(
					"its run path would name %s, in a build directory: it is gone after the build, and anyone who creates it again "+
						"decides what is loaded", e)
			}
		}
	}
	return nil
}

// kept returns the entries of a file that stay with Repair, because what the file opens later by name may be found
// only by them. Stub directories and missing ones go, and the plan says which. A stub directory stays if the file
// would not start without it, because nothing else has the library.
func (r *Resolver) kept(p *Plan) []string {
	var out []string
	for _, e := range p.before {
		dir, known := expand(p.Object, e)
		switch {
		case e == "":
			continue
		case runpath.HasOrigin(e):
		case r.ix.sources.Stubs.Contains(e):
			if known && slices.ContainsFunc(p.Needs, func(n *Need) bool {
				return n.unmet() && r.ix.dir(dir).has(path.Base(n.names[0]))
			}) {
				break
			}
			p.Lost = append(p.Lost, e)
			continue
		case known:
			host := runpath.Key(e) == driver.Link || runpath.Key(e) == driver.Link32 // the host makes it
			if st, err := os.Stat(dir); (err != nil || !st.IsDir()) && !host {
				p.Lost = append(p.Lost, e)
				continue
			}
		}
		out = append(out, e)
	}
	return out
}

// clean spells directories like Python's pathlib, which nixpkgs' program uses: without "." components and without
// doubled or trailing slashes; ".." stays.
func clean(dirs []string) []string {
	var out []string
	for _, d := range dirs {
		for _, e := range strings.Split(d, ":") {
			if e != "" {
				out = append(out, runpath.CleanEntry(e))
			}
		}
	}
	return out
}

// unique keeps the first of equal entries, in place.
func unique(l runpath.List) runpath.List {
	out := l[:0]
	for _, e := range l {
		if !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	return out
}

// originEntries returns the entries of a file's run path that begin at its own directory. With Repair they are as
// written, else as nixpkgs' program spells them.
func (r *Resolver) originEntries(o *Object) []string {
	if !runpath.HasOrigin(o.List) {
		return nil
	}
	var out []string
	for _, e := range runpath.Parse(o.List) {
		if runpath.HasOrigin(e) {
			if r.s.Mode != Repair {
				e = runpath.CleanEntry(e)
			}
			out = append(out, e)
		}
	}
	return out
}

// spell writes a directory as an entry. With BuildOrigins, that is the file's entry that names it in terms of
// $ORIGIN, if there is one. With Repair, it is as the file spells it.
func (r *Resolver) spell(o *Object, dir string, origins []string) string {
	if r.s.Mode == Repair {
		for _, e := range runpath.Parse(o.List) {
			if runpath.Key(e) == dir {
				return e
			}
		}
	}
	if r.s.Mode == Repair && r.s.Relativize && !r.ix.linked()[o.Real] {
		dir = r.relative(o, dir)
	}
	if r.s.Mode != BuildOrigins && (r.s.Mode != Repair || r.s.Relativize) {
		return dir
	}
	real := r.ix.dir(dir).real
	for _, e := range origins {
		if at, ok := expand(o, e); ok {
			if at, err := regular.Real(at); err == nil && at == real {
				return e
			}
		}
	}
	return dir
}

// relative writes an entry in terms of $ORIGIN if it is below the same path of the tree as the file.
func (r *Resolver) relative(o *Object, entry string) string {
	if strings.Contains(entry, "$") || !strings.HasPrefix(entry, "/") {
		return entry
	}
	at := absolute(o.Path)
	hasFile := func(root string) bool { return below(at, root) }
	if r.ix.given().over(entry, hasFile) < 0 {
		if at = o.Real; r.ix.reals().over(entry, hasFile) < 0 {
			return entry
		}
	}
	rel, err := filepath.Rel(path.Dir(at), entry)
	switch {
	case err != nil:
		return entry
	case rel == ".":
		return "$ORIGIN"
	}
	return "$ORIGIN/" + rel
}

// below reports whether a path is a directory or lies in it.
func below(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// entry is a run path entry during the search for an order.
type entry struct {
	text string
	dir  *dir // where it leads; nil if that is not known
}

// entries looks for where the entries of a file's run path lead.
func (r *Resolver) entries(o *Object, l runpath.List) []entry {
	out := make([]entry, 0, len(l)+1)
	for _, e := range l {
		out = append(out, r.ix.entry(o, e))
	}
	return out
}

func (ix *Index) entry(o *Object, text string) entry {
	if dir, ok := expand(o, text); ok {
		return entry{text: text, dir: ix.dir(dir)}
	}
	return entry{text: text}
}

// ordered makes sure that the loader takes what was chosen. The loader searches the entries in order and takes the
// first file of the name for its machine, whatever versions that defines. So a directory with another file of the
// name must come after the chosen one. If there is only one candidate, nothing moves.
func (r *Resolver) ordered(p *Plan, entries []entry) []entry {
	o, in := p.Object, p.in
	if in != nil {
		if i := r.firstWithLibC(p, entries); i < len(entries) && !slices.ContainsFunc(entries[:i],
			func(e entry) bool { return e.dir == in.dir }) {
			entries = slices.Insert(entries, i, entry{text: in.LibC, dir: in.dir})
			if text := fmt.Sprintf(
				"a directory of the run path holds another C library: %s is put before it, because the program's interpreter "+
					"works only with that one", in.LibC); !slices.Contains(p.Warnings, text) {
				p.Warnings = append(p.Warnings, text)
			}
		}
	}
	var needs []*Need
	for _, n := range p.Needs {
		leads := func(e entry) bool { return r.ix.takesIn(o, e, path.Base(n.Name)) == n.Candidate.object }
		if n.Outcome == Found && slices.ContainsFunc(entries, leads) || n.Outcome == BySystem && r.s.Mode == Repair {
			needs = append(needs, n)
		}
	}
	wrong := func(e entry, n *Need) (what string, found bool) {
		lib := r.ix.takesIn(o, e, path.Base(n.Name))
		switch {
		case lib == nil:
			return "", false
		case n.Outcome == BySystem:
			what = r.refuseFor(p, n, n.Name, Candidate{Dir: e.text, Path: e.dir.path + "/" + n.Name, object: lib})
		case lib != n.Candidate.object:
			what = "is another"
		}
		return what, what == ""
	}
	out, stuck, left := order(entries, needs, wrong)
	if len(stuck) == 0 {
		return out
	}
	var parts []string
	for _, e := range stuck {
		for _, n := range left {
			what, _ := wrong(e, n)
			if what == "" {
				continue
			}
			if n.Outcome == Found {
				at := slices.IndexFunc(stuck, func(e entry) bool { _, found := wrong(e, n); return found })
				what = fmt.Sprintf("%s has to come before %s for %s", stuck[at].text, e.text, path.Base(n.Name))
			} else {
				what = fmt.Sprintf("%s holds a %s, which %s", e.text, n.Name, what)
			}
			parts = append(parts, what)
		}
	}
	p.Err = fmt.Errorf("no order of its run path finds every library: %s", strings.Join(parts, ", and "))
	return entries
}

// order puts entries in an order in which the loader finds the right file for every need. The next entry is always
// the first that holds nothing wrong for the needs that are still open. If there is none, no order is right, because
// each placed entry only leaves fewer needs to the others.
func order(entries []entry, needs []*Need, wrong func(entry, *Need) (what string, found bool)) (out, stuck []entry,
	left []*Need) {
	stuck, left = slices.Clone(entries), slices.Clone(needs)
	for len(stuck) > 0 {
		next := slices.IndexFunc(stuck, func(e entry) bool {
			return !slices.ContainsFunc(left, func(n *Need) bool { what, _ := wrong(e, n); return what != "" })
		})
		if next < 0 {
			return out, stuck, left
		}
		e := stuck[next]
		out, stuck = append(out, e), slices.Delete(stuck, next, next+1)
		left = slices.DeleteFunc(left, func(n *Need) bool { _, found := wrong(e, n); return found })
	}
	return out, nil, left
}

// untangle chooses again if no order of a run path finds every library. It takes candidates whose directories go
// together, and reports whether there are any.
func (r *Resolver) untangle(p *Plan) bool {
	o, entries := p.Object, r.entries(p.Object, p.Set)
	of := map[*Need][]Candidate{}
	var needs []*Need
	for _, n := range p.Needs {
		if n.Outcome != Found {
			continue
		}
		needs = append(needs, n)
		for c := range r.candidates(p, path.Base(n.Name), everywhere) {
			of[n] = append(of[n], c)
			if e := r.ix.entry(o, c.Dir); !slices.ContainsFunc(entries, func(had entry) bool { return had.dir == e.dir }) {
				entries = append(entries, e)
			}
		}
	}
	take := func(e entry, n *Need) (c Candidate, there bool, why string) {
		lib := r.ix.takesIn(o, e, path.Base(n.Name))
		if lib == nil {
			return c, false, ""
		}
		if i := slices.IndexFunc(of[n], func(c Candidate) bool { return c.object == lib }); i >= 0 {
			c = of[n][i]
		} else {
			c, _ = r.ix.candidate(e.dir, path.Base(n.Name), -1)
		}
		return c, true, r.refuseFor(p, n, path.Base(n.Name), c)
	}
	out, _, left := order(entries, needs, func(e entry, n *Need) (what string, found bool) {
		_, there, why := take(e, n)
		return why, there && why == ""
	})
	if len(left) > 0 {
		return false
	}
	for _, n := range needs {
		for _, e := range out {
			if c, there, _ := take(e, n); there {
				n.Candidate = c
				break
			}
		}
	}
	p.Err = nil
	return true
}

// texts returns the list of the entries.
func texts(entries []entry) runpath.List {
	l := make(runpath.List, len(entries))
	for i, e := range entries {
		l[i] = e.text
	}
	return l
}

// takesIn returns the file that the loader takes for a name when it searches the directory of an entry; nil if it
// goes on.
func (ix *Index) takesIn(o *Object, e entry, name string) *Object {
	if e.dir == nil || !e.dir.has(name) {
		return nil
	}
	lib := ix.open(e.dir, name)
	if lib == nil || o.abi.Refuses(lib.abi) != "" {
		return nil
	}
	return lib
}

// firstWithLibC returns the first entry that holds another file for one of the C library's own names that the file
// asks for.
func (r *Resolver) firstWithLibC(p *Plan, entries []entry) int {
	for i, e := range entries {
		if e.dir == nil || e.dir.real == p.in.dir.real {
			continue
		}
		for _, n := range p.Needs {
			if n.Outcome != InLibC || n.Cause != loader.Needed || !files.OfCLibrary(n.Name) {
				continue
			}
			if lib := r.ix.takesIn(p.Object, e, n.Name); lib != nil && lib != r.ix.open(p.in.dir, n.Name) {
				return i
			}
		}
	}
	return len(entries)
}
