package fixup

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/nixpkgs"
	"cuda-runpath/pkg/remedy"
)

// Absence is a missing library that files of the tree need.
type Absence struct {
	Name     string   // or "any(a, b)"
	NeededBy []string // paths
	// rejected are the candidates that could not be used, and near libraries of another version.
	rejected []Rejection
	near     []string
	// named are usable libraries that have the name as their soname, under another file name. Archives without
	// symbolic links (wheels, npm packages) lose the link.
	named []Named
	// LibC: it is one of the C library's own. Interpreter is then a loader with a suitable C library, in the
	// directory "DIR" if none is known.
	LibC        bool
	interpreter string
	// below are directories of the inputs that have it, although nothing searches them.
	below []string
	// stub is a stub of the library, for linking only.
	stub string
	// Attributes of nixpkgs have it, usually.
	Attributes []string
	// driver: it comes with the host's GPU driver.
	driver bool
	// Outside is a library outside the tree that needs it, and In a directory that has it, where Outside's own run
	// path should lead.
	Outside, in string
	// dlopen: a .note.dlopen of this priority wants it, DT_NEEDED does not.
	dlopen string
	above  string // the next priority
	first  string // of the names
}

// Named is a library by its soname.
type Named struct{ path, soname string }

// Absences groups what is missing by name, in the order of the plans.
func (r *Resolver) Absences(plans []*Plan, hints *Hints) []*Absence {
	var out []*Absence
	by := map[string]*Absence{}
	for _, p := range plans {
		for _, n := range p.Needs {
			if n.Outcome != Missing {
				continue
			}
			a := by[n.Label()]
			if a == nil {
				a = &Absence{Name: n.Label(), first: n.names[0]}
				by[a.Name], out = a, append(out, a)
				for _, name := range n.names {
					name = path.Base(name)
					named := r.withSoname(p, name)
					a.named = append(a.named, named...)
					a.near = append(a.near, slices.DeleteFunc(r.near(name), func(p string) bool {
						return slices.ContainsFunc(named, func(n Named) bool { return n.path == p })
					})...)
					a.driver = a.driver || driver.Provides(name)
					a.below = append(a.below, r.belowInputs(p, name)...)
					if files.OfCLibrary(name) {
						a.LibC, a.interpreter = true, r.loaderWith(p, name)
					}
					if a.stub == "" {
						a.stub = r.stub(name)
					}
					for _, attribute := range hints.attribute(name) {
						if !slices.Contains(a.Attributes, attribute) {
							a.Attributes = append(a.Attributes, attribute)
						}
					}
				}
				if n.priority < Required {
					a.dlopen, a.above = priorities[n.priority], priorities[n.priority+1]
				}
			}
			if !slices.Contains(a.NeededBy, p.Object.Path) {
				a.NeededBy = append(a.NeededBy, p.Object.Path)
			}
			for _, reject := range n.Rejected {
				if !slices.Contains(a.rejected, reject) {
					a.rejected = append(a.rejected, reject)
				}
			}
		}
	}
	if r.s.Mode != Repair { // that is the package's own affair, and gets a warning
		return out
	}
	for _, p := range plans {
		for _, l := range p.lacks {
			for _, name := range l.names {
				if by[name] == nil {
					by[name] = &Absence{Name: name, first: name, NeededBy: []string{l.by}, Outside: l.by}
					out = append(out, by[name])
					for _, level := range r.ix.levels[1:] {
						for _, d := range level.names()[name] {
							by[name].in = cmp.Or(by[name].in, d.path)
						}
					}
				}
			}
		}
	}
	return out
}

// Reasons says, in a sentence each, what was looked at and why it was not taken.
func (a *Absence) Reasons() []string {
	var out []string
	for _, r := range a.rejected {
		out = append(out, r.Path+" "+r.Why)
	}
	if a.stub != "" {
		out = append(out, a.stub+" is a stub, for linking only")
	}
	for _, n := range a.named {
		out = append(out,
			fmt.Sprintf(
				"%s has the soname %s, but the loader looks for a file of that name: a symbolic link beside it is missing",
				n.path, n.soname))
	}
	for _, near := range a.near {
		out = append(out, near+" is there, which is another version")
	}
	return out
}

// Remedy is what to do, in a build with nixpkgs' hook or by hand.
func (a *Absence) Remedy(m Mode) (r remedy.Remedy) {
	add := func(build, hand string) {
		if r = remedy.Do("%s", remedy.Text(hand)); !m.ByHand() {
			r = remedy.Do("%s", remedy.Text(build))
		}
	}
	switch {
	case a.in != "":
		r = remedy.Do("%s", remedy.Command("autoPatchelf", "--libs", a.in, a.Outside))
	case a.Outside != "":
		r = remedy.Do("%s, where DIR is the directory that has it",
			remedy.Command("autoPatchelf", "--libs", "DIR", a.Outside))
	case a.LibC:
		fix := remedy.Quote("--interpreter", a.interpreter)
		if strings.HasPrefix(a.interpreter, "DIR/") {
			fix += ", where DIR is the lib directory of a newer glibc (nixpkgs)"
		}
		add("build it with the stdenv of a newer nixpkgs, whose C library has it",
			fix+": a program and its C library go together, and a library runs on that of its program")
	case len(a.named) > 0:
		n := a.named[0]
		link := remedy.Quote("ln", "-s", path.Base(n.path), path.Dir(n.path)+"/"+n.soname)
		add(link+" in postInstall", link)
	case len(a.below) > 0 && !a.driver:
		add(remedy.Quote("addAutoPatchelfSearchPath", a.below[0])+" in preFixup, which has it",
			remedy.Quote("--libs", a.below[0])+", which has it")
	case a.driver:
		const why = "it comes with the host's GPU driver: "
		add(why+"add cudaRunpathHook to nativeBuildInputs, and do not set dontAutoAddDriverRunpath",
			why+"--tool autoAddDriverRunpath")
	case len(a.Attributes) > 0:
		add("add "+a.packages(m)+" to buildInputs",
			fmt.Sprintf("--libs DIR, where DIR is the lib directory of %s (nixpkgs)", a.packages(m)))
	case slices.ContainsFunc(a.rejected, Rejection.tooNew):
		add("", "--libs DIR, where DIR has it from the nixpkgs that the Python is from; or a newer Python")
	default:
		it := "it"
		if a.old() {
			it = "a newer one"
		}
		add("add the package that has "+it+" to buildInputs, or its directory with addAutoPatchelfSearchPath",
			"--libs DIR, where DIR is the directory that has "+it)
	}
	if a.dlopen != "" && !a.driver {
		r = r.And("; or --enforce-priority %s if the file may do without it (its .note.dlopen says %s)", a.above, a.dlopen)
	}
	if !m.ByHand() {
		return r.And("; or autoPatchelfIgnoreMissingDeps = [ %s ] if it is not wanted", remedy.NixPattern(a.first))
	}
	return r.And("; or %s if it is not wanted", remedy.Command("--ignore-missing", a.first))
}

// packages names the packages that have it. By hand, and if another version is there, CUDA packages come from the set
// that the name tells. Otherwise a package means its own set.
func (a *Absence) packages(m Mode) string {
	names := slices.Clone(a.Attributes)
	for i, name := range names {
		if !nixpkgs.IsCUDA(name) || !m.ByHand() && len(a.near) == 0 {
			continue
		}
		told := false
		if names[i], told = nixpkgs.InCUDA(name, a.Name); !told && len(a.near) > 0 {
			names[i] = name + " of another CUDA (cudaPackages_NN)"
		}
	}
	if a.old() {
		return "a newer " + strings.Join(names, " or ")
	}
	return strings.Join(names, " or ")
}

// old reports whether there is one already that is too old.
func (a *Absence) old() bool { return slices.ContainsFunc(a.rejected, Rejection.old) }

// loaderWith returns a loader for a file, from a directory of libraries whose C library has what the file needs of a
// name. It is in "DIR" if there is none.
func (r *Resolver) loaderWith(p *Plan, name string) string {
	o := p.Object
	base := path.Base(o.Interp)
	switch {
	case o.program():
	case p.in != nil:
		base = path.Base(p.in.Path)
	case r.today != nil:
		base = path.Base(r.today.usual(o))
	default:
		return "DIR/LOADER"
	}
	for _, level := range r.ix.levels[1:] {
		for _, d := range level.names()[name] {
			if lib := r.ix.open(d, name); lib != nil && d.has(base) && lib.usable() == "" && o.abi.Refuses(lib.abi) == "" &&
				lib.Serves(o.File, name) {
				return d.path + "/" + base
			}
		}
	}
	return "DIR/" + base
}

// stem is a library's name up to ".so".
func stem(name string) string {
	s, _, _ := strings.Cut(name, ".so")
	return s
}

// near returns libraries whose name differs only in the version.
func (r *Resolver) near(name string) (out []string) {
	for i, level := range r.ix.levels {
		var others []string
		for other := range level.names() {
			// "libfoo.so" is for the linker, and usually a link to a library that is there, too. In the tree it may
			// be the only one.
			if other != name && stem(other) == stem(name) && stem(name) != "" && (i == 0 || other != stem(name)+".so") {
				others = append(others, other)
			}
		}
		slices.Sort(others)
		for _, other := range others {
			for _, d := range level.by[other] {
				lib := r.ix.open(d, other)
				if p := d.path + "/" + other; lib != nil && lib.err == nil && lib.skipReason != elfimage.Detached &&
					!slices.Contains(out, p) {
					out = append(out, p)
				}
			}
		}
	}
	return out[:min(len(out), maxNear)]
}

// withSoname returns the libraries that only their file name keeps from working for a file. It differs from their
// soname, which nothing beside them has.
func (r *Resolver) withSoname(p *Plan, soname string) []Named {
	var out []Named
	r.ix.objects.Range(func(_, o any) bool {
		lib := o.(*Object)
		if lib != nil && lib.Soname == soname && path.Base(lib.Real) != soname && !r.ix.dir(path.Dir(lib.Real)).has(soname) &&
			r.refuse(p, soname, Candidate{Dir: path.Dir(lib.Real), Path: lib.Path, object: lib}) == "" {
			out = append(out, Named{lib.Path, soname})
		}
		return true
	})
	slices.SortFunc(out, func(a, b Named) int { return strings.Compare(a.path, b.path) })
	return out[:min(len(out), maxNear)]
}

// maxNear bounds how many libraries of other versions a report names.
const maxNear = 4

// stub returns a stub of a library in one of the stub directories that were left out.
func (r *Resolver) stub(name string) string {
	for _, d := range r.ix.stubs {
		for _, n := range []string{name, stem(name) + ".so"} {
			if d.has(n) {
				return d.path + "/" + n
			}
		}
	}
	return ""
}
