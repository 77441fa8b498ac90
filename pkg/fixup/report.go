package fixup

import (
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/elfimage"
)

// Absence is a library that files of the tree need and that is not there.
type Absence struct {
	Name     string   // or "any(a, b)"
	NeededBy []string // paths
	// Rejected are the candidates that could not be used, Near libraries of another version.
	Rejected []Rejection
	Near     []string
	// Named are libraries that have the name as their soname, under another file name:
	// archives without symbolic links (wheels, npm packages) lose the link.
	Named []Named
	// Stub is a stub of the library, which is for linking only.
	Stub string
	// Attributes of nixpkgs have it, usually.
	Attributes []string
	// Driver: it comes with the host's GPU driver.
	Driver bool
	// Optional: a .note.dlopen of this priority wants it, DT_NEEDED does not.
	Dlopen string
}

// Named is a library by its soname.
type Named struct{ Path, Soname string }

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
				a = &Absence{Name: n.Label()}
				by[a.Name], out = a, append(out, a)
				for _, name := range n.Names {
					name = path.Base(name)
					named := r.withSoname(p.Object, name)
					a.Named = append(a.Named, named...)
					a.Near = append(a.Near, slices.DeleteFunc(r.near(p.Object, name), func(p string) bool {
						return slices.ContainsFunc(named, func(n Named) bool { return n.Path == p })
					})...)
					a.Driver = a.Driver || driver.Provides(name)
					if a.Stub == "" {
						a.Stub = r.stub(name)
					}
					for _, attribute := range hints.attribute(name) {
						if !slices.Contains(a.Attributes, attribute) {
							a.Attributes = append(a.Attributes, attribute)
						}
					}
				}
				if n.Priority < Required {
					a.Dlopen = [...]string{"suggested", "recommended"}[n.Priority]
				}
			}
			if !slices.Contains(a.NeededBy, p.Object.Path) {
				a.NeededBy = append(a.NeededBy, p.Object.Path)
			}
			for _, reject := range n.Rejected {
				if !slices.Contains(a.Rejected, reject) {
					a.Rejected = append(a.Rejected, reject)
				}
			}
		}
	}
	return out
}

// Reasons says what was looked at and why it was not taken, a sentence each.
func (a *Absence) Reasons() []string {
	var out []string
	for _, r := range a.Rejected {
		out = append(out, r.Path+" "+r.Why)
	}
	if a.Stub != "" {
		out = append(out, a.Stub+" is a stub, for linking only")
	}
	for _, n := range a.Named {
		out = append(out, fmt.Sprintf("%s has the soname %s, but the loader looks for a file of that name: a symbolic link beside it is missing", n.Path, n.Soname))
	}
	for _, near := range a.Near {
		out = append(out, near+" is there, which is another version")
	}
	return out
}

// Fix says what to do, for a build with nixpkgs' hook or for a call by hand.
func (a *Absence) Fix(inBuild bool) string {
	var fixes []string
	switch {
	case a.Driver && inBuild:
		fixes = append(fixes, "it comes with the host's GPU driver: add autoAddDriverRunpath to nativeBuildInputs")
	case a.Driver:
		fixes = append(fixes, "it comes with the host's GPU driver: --tool autoAddDriverRunpath")
	case len(a.Attributes) > 0 && inBuild:
		fixes = append(fixes, "add "+strings.Join(a.Attributes, " or ")+" to buildInputs")
	case len(a.Attributes) > 0:
		fixes = append(fixes, fmt.Sprintf("--libs DIR, where DIR is the lib directory of %s (nixpkgs)", strings.Join(a.Attributes, " or ")))
	case inBuild:
		fixes = append(fixes, "add the package that has it to buildInputs, or its directory with addAutoPatchelfSearchPath")
	default:
		fixes = append(fixes, "--libs DIR, where DIR is the directory that has it")
	}
	if a.Dlopen != "" && !a.Driver {
		fixes = append(fixes, fmt.Sprintf("--enforce-priority %s if the file may do without it (its .note.dlopen says %s)", map[string]string{"suggested": "recommended", "recommended": "required"}[a.Dlopen], a.Dlopen))
	}
	name := a.Name
	if first, ok := strings.CutPrefix(name, "any("); ok {
		name, _, _ = strings.Cut(strings.TrimSuffix(first, ")"), ", ")
	}
	if inBuild {
		fixes = append(fixes, fmt.Sprintf("autoPatchelfIgnoreMissingDeps = [ %q ] if it is not wanted", name))
	} else {
		fixes = append(fixes, fmt.Sprintf("--ignore-missing %s if it is not wanted", name))
	}
	return strings.Join(fixes, "; or ")
}

// stem is a library's name up to ".so".
func stem(name string) string {
	s, _, _ := strings.Cut(name, ".so")
	return s
}

// near returns libraries that have the name but for the version.
func (r *Resolver) near(o *Object, name string) []string {
	var out []string
	add := func(p string) {
		if len(out) < maxNear && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	var own []string
	for other := range r.ix.own {
		if other != name && stem(other) == stem(name) && stem(name) != "" {
			own = append(own, other)
		}
	}
	slices.Sort(own)
	for _, other := range own {
		for _, p := range r.ix.own[other] {
			add(strings.TrimSuffix(p.dir, "/") + "/" + other)
		}
	}
	for _, level := range r.ix.levels[1:] {
		for _, d := range level.dirs {
			for _, n := range d.list().names {
				other := n.Name
				// "libfoo.so" is for the linker, and usually a link to what is there as well.
				if other != name && other != stem(name)+".so" && stem(other) == stem(name) {
					if lib := r.ix.open(d, other); lib != nil && lib.Err == nil && lib.SkipReason != elfimage.Detached {
						add(d.path + "/" + other)
					}
				}
			}
		}
	}
	return out
}

// withSoname returns the libraries for a file's machine that have a soname and another file name.
func (r *Resolver) withSoname(o *Object, soname string) []Named {
	var out []Named
	for _, lib := range r.ix.objects {
		if lib != nil && lib.Soname == soname && path.Base(lib.Real) != soname && lib.usable() == "" && o.ABI.Refuses(lib.ABI) == "" {
			out = append(out, Named{lib.Path, soname})
		}
	}
	// sort, not slices: made for one more type, the functions of slices are 15 kB of program.
	sort.Slice(out, func(i, j int) bool { return out[i].Path < out[j].Path })
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
