package explain

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/driver/symbols"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/runpath"
)

// Undefined is a symbol that nothing loaded at start defines.
type Undefined struct {
	Symbol  string `json:"symbol"`
	Version string `json:"version,omitempty"`
	Path    string `json:"path"` // of the file that refers to it
}

// Version is a symbol version that a file needs.
type Version struct {
	Path    string  `json:"path"` // of the file that needs it
	Library string  `json:"library"`
	Version string  `json:"version"`
	From    *string `json:"from"` // the file that defines it; null if the library is not found or does not
}

// Symbols is what explain says of symbols, like ldd -u, -r and -v.
type Symbols struct{ Unused, Undefined, Versions bool }

// Any reports whether there is anything to say.
func (q Symbols) Any() bool { return q.Unused || q.Undefined || q.Versions }

// Answer fills in what was asked for, with empty lists if there is nothing. An error says what is not known of this
// load, and why; its list is then nil.
func (q Symbols) Answer(f *File, s *loader.Load) error {
	var unknown []string
	var why error
	if q.Unused {
		if unused, err := unused(s); err == nil {
			f.Unused = []string{}
			for _, u := range unused {
				f.Unused = append(f.Unused, u.Name)
			}
		} else {
			unknown, why = append(unknown, "what of it is unused"), err
		}
	}
	if q.Undefined {
		if undefined, err := undefined(s); err == nil {
			f.Undefined = []Undefined{}
			for _, u := range undefined {
				if u.Aborts == nil {
					f.Undefined = append(f.Undefined, Undefined{u.Name, u.Needs(), u.In.Path})
				}
			}
		} else {
			unknown, why = append(unknown, "which symbols are undefined"), err
		}
	}
	if q.Versions {
		f.Versions = []Version{}
		for _, o := range atStart(s) {
			for i := range o.File.Versions.Needs {
				v := &o.File.Versions.Needs[i]
				w := Version{Path: o.Path, Library: v.Library, Version: v.Name}
				if to := s.Named(v.Library); to != nil && to.Found() && to.File != nil && to.File.Versions.Define(v) {
					w.From = &to.Path
				}
				f.Versions = append(f.Versions, w)
			}
		}
	}
	if why != nil {
		return fmt.Errorf("cannot find out %s: %w", strings.Join(unknown, ", "), why)
	}
	return nil
}

// atStart returns the objects that are loaded at start; none of a static program.
func atStart(s *loader.Load) (all []*loader.Object) {
	for _, o := range s.Objects {
		if s.Role != loader.Static && o.File != nil && o.Found() && (o == s.Main || o.Certain()) {
			all = append(all, o)
		}
	}
	return all
}

// scopeAtStart is the scope of what is loaded at start, and what is in it.
func scopeAtStart(s *loader.Load) (scope *loader.Scope, objects []*loader.Object, err error) {
	objects = slices.DeleteFunc(atStart(s), func(o *loader.Object) bool {
		return o.Err != "" && o.Cause.Optional() // the loader goes on without it
	})
	if scope, err = loader.NewScope(s.Interp, objects); err == nil {
		scope.Now = s.BindNow != ""
	}
	return scope, objects, err
}

// unused returns the libraries in DT_NEEDED of the file itself to which none of its relocations binds, as ldd -u does
// (LD_DEBUG=unused of glibc, elf/rtld.c). It does not know what dlsym looks up later, or which libraries are needed
// for their constructors alone. An error says that a library is missing, or that its symbols cannot be read.
func unused(s *loader.Load) (unused []loader.Use, err error) {
	if s.Role == loader.Static {
		return nil, nil
	}
	if len(s.Missing()) > 0 {
		return nil, errors.New("a library is missing")
	}
	scope, _, err := scopeAtStart(s)
	if err != nil {
		return nil, err
	}
	link, err := s.Main.File.Linkage()
	if err != nil {
		return nil, err
	}
	used := map[*loader.Object]bool{}
	for i := range link.References {
		if o, _ := scope.Bind(s.Main, &link.References[i]); o != nil {
			used[o] = true
		}
	}
	for _, u := range s.Main.Uses {
		if u.Cause == loader.Needed && !used[u.To] {
			unused = append(unused, u)
		}
	}
	return unused, nil
}

// undefined returns what [loader.Scope.Unbound] returns for the objects loaded at start, like ldd -r. Missing
// libraries define nothing. An error says that the symbols of an object cannot be read.
func undefined(s *loader.Load) (out []loader.Unbound, err error) {
	if s.Role == loader.Static {
		return nil, nil
	}
	scope, objects, err := scopeAtStart(s)
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		if o.File == s.Interp.File {
			continue // the loader has relocated itself
		}
		unbound, err := scope.Unbound(o)
		if err != nil {
			return nil, err
		}
		out = append(out, unbound...)
	}
	return out, nil
}

// symbols reports references that nothing in the process defines. They are certain for a program with all its
// libraries: those bound at once, and those to data, end it. A library may take symbols from whoever opens it, but
// the owner of the driver's and the toolkit's symbols is known.
func (c *Case) symbols() {
	lacks := func(o *loader.Object) bool { return !o.Found() || o.Err != "" || len(o.Lacks) > 0 }
	// What a loader defines itself is not known if it is not here, or for another system.
	program := c.Role == loader.Program
	if program && !c.Symbols || c.Main.Err != "" || !c.Interp.Found ||
		slices.ContainsFunc(c.Objects[1:], func(o *loader.Object) bool {
			return lacks(o) && o.Certain() && !driver.Provides(path.Base(o.Name))
		}) {
		return
	}
	absent := slices.ContainsFunc(c.Objects[1:], func(o *loader.Object) bool {
		return lacks(o) && driver.Provides(path.Base(o.Name))
	})
	ours := func(u loader.Unbound) bool { return !absent || !c.ofDriver(u.Name) }
	unbound, err := undefined(c.Load)
	if err != nil {
		return
	}
	at := map[*loader.Object][]loader.Unbound{}
	for _, u := range unbound {
		// What glibc's own libraries lack is in their loader, which a build for another machine may have elsewhere.
		if ours(u) && !files.OfGLibc(path.Base(u.In.Path)) && (program || u.In == c.Main && owner(u.Name) != "" ||
			u.Aborts != nil && !u.Late) {
			at[u.In] = append(at[u.In], u)
		}
	}
	start := atStart(c.Load)
	for _, o := range c.Objects {
		c.unbound(o, at[o], program, start)
	}
	if !program {
		return
	}
	for _, p := range c.Opened {
		more := slices.DeleteFunc(brought(p.To), func(o *loader.Object) bool {
			return o.File == nil || slices.Contains(start, o)
		})
		scope, err := loader.NewScope(c.Interp, append(slices.Clip(start), more...))
		if scope != nil {
			scope.Now = c.BindNow != ""
		}
		for _, o := range p.Brought {
			if err != nil || o.File == nil || !o.Found() || o.Err != "" {
				continue
			}
			if all, err := scope.Unbound(o); err == nil {
				c.unbound(o, slices.DeleteFunc(all, func(u loader.Unbound) bool { return !ours(u) }), false,
					append(brought(p.To), start...))
			}
		}
		if p.Global {
			start = append(start, more...)
		}
	}
}

// owner is [symbols.Owner]; "" if that is not known.
func owner(symbol string) string { library, _ := symbols.Owner(symbol); return library }

// ofDriver reports whether a function is one of the driver's.
func (c *Case) ofDriver(symbol string) bool { return driver.Provides(owner(symbol)) }

// brought returns an object and what it brings, breadth first.
func brought(o *loader.Object) []*loader.Object {
	all := []*loader.Object{o}
	for i := 0; i < len(all); i++ {
		for _, u := range all[i].Uses {
			if u.Cause.Certain() && u.To.File != nil && u.To.Found() && !slices.Contains(all, u.To) {
				all = append(all, u.To)
			}
		}
	}
	return all
}

// Misses reports whether something that an object needs, or that this needs, is not found.
func Misses(o *loader.Object) bool {
	return slices.ContainsFunc(brought(o), func(o *loader.Object) bool {
		return slices.ContainsFunc(o.Uses, func(u loader.Use) bool { return u.Cause.Certain() && !u.To.Found() })
	})
}

// unbound reports what an object does not find in a scope. certain: the process does not start without it, or will
// need it.
func (c *Case) unbound(o *loader.Object, all []loader.Unbound, certain bool, scope []*loader.Object) {
	type group struct {
		owner string
		late  bool
	}
	names := map[group][]string{}
	var order []group
	for _, u := range all {
		g := group{owner(u.Name), u.Late && !c.atOnce(o)}
		if names[g] == nil {
			order = append(order, g)
		}
		name := u.Name
		if u.Aborts != nil {
			name += ", of which " + u.Aborts.Path + " should have a version and has none"
		}
		names[g] = append(names[g], name)
	}
	for _, g := range order {
		these := names[g]
		shown := remedy.List(these)
		if n := len(these); n > 3 { // runpath explain --undefined lists them
			shown = fmt.Sprintf("%s and %d more", these[0], n-1)
		}
		f := on(finding.UndefinedSymbol, nil, o, remedy.Do("link it with the library that defines it, or with the version that does"),
			"%s refers to %s, which nothing in the process defines", c.who(o), shown)
		f.Library = these[0]
		of := slices.IndexFunc(scope, func(x *loader.Object) bool {
			name := path.Base(x.Name)
			return g.owner != "" && (name == g.owner || strings.HasPrefix(name, g.owner+"."))
		})
		switch {
		case of >= 0:
			f.Message += fmt.Sprintf(": the %s that is loaded, %s, does not define it: it is too old",
				path.Base(scope[of].Name), scope[of].Path)
			f.Remedy = remedy.Do("put the directory of a newer one first, or build against this one")
			if c.ofDriver(these[0]) {
				f.Remedy = remedy.Do("take a newer driver, or a compat package, or build against this one")
			}
		case c.ofDriver(these[0]):
			f.Message += fmt.Sprintf(": it comes with %s of the host's driver, which is not needed by any of its libraries",
				g.owner)
			add := remedy.Change{AddNeeded: []string{g.owner}}
			if link := c.Link(o.File.ELF.Machine); !runpath.Parse(o.File.List).Has(link) {
				add.AddEntries = []string{link}
			}
			f.Remedy = c.Edit(o, &add)
		case g.owner != "":
			f.Message += fmt.Sprintf(": it comes with %s of the CUDA toolkit, which is not needed by any of its libraries",
				strings.TrimSuffix(g.owner, ".so"))
			f.Remedy = remedy.Do("link it with %s, or add its soname to the needed libraries: runpath edit --add-needed",
				g.owner)
		}
		switch {
		case g.late:
			f.Severity = finding.Warning
			f.Message += "; it fails at the first call of the function"
			if !certain && g.owner == "" {
				f.Severity = finding.Note
			}
		case !certain && g.owner == "":
			f.Severity, f.Optional = finding.Warning, true
			f.Message += "; it cannot be opened"
		}
		c.report(f)
	}
}

// atOnce reports whether whoever opens a file binds all its references at once, as Python does for modules and ctypes
// for libraries.
func (c *Case) atOnce(o *loader.Object) bool {
	if slices.ContainsFunc(c.Opened, func(p *loader.Opening) bool {
		return p.Cause == loader.DlopenScript && slices.Contains(p.Brought, o)
	}) {
		return true
	}
	l, err := o.File.Linkage()
	return err == nil && l.HasName("PyInit_")
}
