package starts

import (
	"context"
	"debug/elf"
	"os"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/process"
	"cuda-runpath/pkg/tree"
)

// Place holds what can be started or opened: a directory, the environment of Python that it is, or an interpreter's.
type Place struct {
	// Path is below the root. Python is what opens the modules in it, nil where no interpreter is known.
	Path   string
	Python *Python
	// Starts are programs, with the wrappers before them, and what a program of Python's imports by itself, packages and
	// modules, each with all modules that are in it: these are opened behind it, and not for sure.
	Starts []process.Start
	// Others are libraries that ask for the driver, which count where no start has them in its process. In an environment
	// of Python's they are opened behind the package that they lie in.
	Others []process.Start
}

// kind is what a file of a place is.
type kind int

const (
	wrapped kind = iota
	program
	module
	other
	kinds
)

// PlaceOf returns what a directory holds, or what an interpreter of Python's may import; nil for any other file. Errors
// are [tree.Walk]'s.
func PlaceOf(ctx context.Context, l *loader.Loader, file string) (*Place, error) {
	p := &Place{Path: file}
	var walks []string
	own := true // what the interpreter has itself is asked about
	if l.Files().IsDir(l.Absolute(file)) {
		walks = []string{file}
		p.Python, own = pythonIn(l, l.Absolute(file))
	} else {
		t := started(l, file, Wrappers)
		if p.Python = PythonOf(l, t); p.Python == nil || t.Script != "" {
			return nil, nil
		}
	}
	if p.Python != nil {
		p.Python.Start.Environment = l.Environment()
	}
	if p.Python != nil && own {
		for _, site := range p.Python.Sites {
			if len(walks) == 0 || !strings.HasPrefix(site, l.Absolute(walks[0])+"/") {
				walks = append(walks, site)
			}
			for _, name := range sorted(l.Files().Names(site)) { // nixpkgs' environments are made of links
				if target, _ := os.Readlink(l.Host(site + "/" + name)); target != "" {
					walks = append(walks, site+"/"+name)
				}
			}
		}
	}
	type found struct {
		process.Start
		kind kind
	}
	visit := func(f *tree.File) (found, bool) {
		at := l.Path(f.Path)
		if f.Err != nil || !f.ELF() {
			if f.Err == nil && strings.HasPrefix(string(f.Head()), "#!") {
				t := started(l, at, Wrappers)
				return found{t, wrapped}, len(t.Via) > 0 && t.Script == ""
			}
			return found{}, false
		}
		l.Take(at, f.FD())
		is := l.Files().Open(l.Absolute(at))
		t := found{process.Start{File: at, Environment: l.Environment()}, other}
		switch {
		case is.ELF == nil || is.ELF.SkipReason() != "":
			return t, false
		case is.Interp != "" && (is.Soname == "" || is.Type == elf.ET_EXEC):
			t.kind = program
		case p.imports(is):
			t.kind = module
		default:
			return t, asks(is)
		}
		return t, true
	}
	var all [kinds][]process.Start
	seen := map[string]bool{} // a directory may be named twice
	err := tree.Walk(ctx, hosts(l, walks), tree.Options{FollowArguments: true}, visit, func(t found) {
		if at := l.Absolute(t.Name()); !seen[at] {
			seen[at], all[t.kind] = true, append(all[t.kind], t.Start)
		}
	})
	p.Starts = all[wrapped]
	for _, t := range all[program] {
		if !slices.ContainsFunc(all[wrapped], func(w process.Start) bool {
			return l.Files().Open(l.Absolute(w.File)) == l.Files().Open(l.Absolute(t.File))
		}) {
			t.Part = p.Python != nil && slices.ContainsFunc(p.Python.Sites, func(site string) bool {
				return strings.HasPrefix(l.Absolute(t.File), site+"/")
			})
			p.Starts = append(p.Starts, t)
		}
	}
	if p.Others = all[other]; p.Python != nil {
		p.imported(l, all[module], all[other])
	}
	return p, err
}

// imported makes starts of modules, and of libraries, as a program of Python's comes to them: behind what it imports
// before.
func (p *Place) imported(l *loader.Loader, modules, libraries []process.Start) {
	m := p.Python.importer(l, new(Modules))
	known := map[string]*process.Start{}
	behind := func(t process.Start, imports bool) *process.Start {
		at := l.Absolute(t.File)
		root, name := m.root(at)
		if name == "" || root == at && !imports {
			root, name = at, "" // no program finds it by itself
		}
		if known[root] == nil {
			first := p.Python.Start
			first.As = root
			first.Opens = m.imports(name, "import")
			first.CTypes = p.Python.ctypes(l, first.Opens)
			known[root] = &first
		}
		return known[root]
	}
	var order []*process.Start
	for _, t := range modules {
		s := behind(t, true)
		if !slices.Contains(order, s) {
			order = append(order, s)
		}
		if at := l.Absolute(t.File); !slices.ContainsFunc(s.Opens, func(w process.Wanted) bool { return w.Name == at }) {
			s.Opens = append(s.Opens, process.Wanted{Name: at, Module: true, By: "import"})
		}
	}
	for _, s := range order {
		p.Starts = append(p.Starts, *s)
	}
	for i, t := range libraries {
		s := *behind(t, false)
		s.As = l.Absolute(t.File)
		s.Opens = append(slices.DeleteFunc(slices.Clone(s.Opens), func(w process.Wanted) bool { return !w.Sure }),
			process.Wanted{Name: s.As, Module: true, By: "import"})
		p.Others[i] = s
	}
}

// MayBePlace reports whether a path of this machine is a directory, or has the name of an interpreter of Python.
func MayBePlace(file string) bool {
	st, err := os.Stat(file)
	return err == nil && (st.IsDir() || pythonName().MatchString(path.Base(file)))
}

// hosts returns paths below the root as those of this machine that are there.
func hosts(l *loader.Loader, paths []string) (all []string) {
	for _, p := range paths {
		if _, _, err := l.Files().Resolve(l.Absolute(p)); err == nil {
			all = append(all, l.Host(p))
		}
	}
	return all
}

// imports reports whether a file is a module that the interpreter may import.
func (p *Place) imports(f *files.File) bool {
	if p.Python == nil {
		return false
	}
	name, ok := p.Python.Module(path.Base(f.Path))
	if !ok {
		return false
	}
	linkage, err := f.Linkage()
	return err == nil && (linkage.HasName("PyInit_") || name == "__init__")
}

// pythonIn returns the installation of Python that a directory is, or is for: the interpreter in its bin, else that of
// the packages which a path of a store is to be installed with, where modules are found that this one imports; own says
// that it is in the directory.
func pythonIn(l *loader.Loader, dir string) (p *Python, own bool) {
	with := append([]string{dir}, strings.Fields(source(l, dir+"/nix-support/propagated-build-inputs"))...)
	for i, prefix := range with {
		names := sorted(l.Files().Names(prefix + "/bin"))
		slices.Reverse(names) // python3.12 before python
		for _, name := range names {
			if !pythonName().MatchString(name) {
				continue
			}
			if p := PythonOf(l, started(l, prefix+"/bin/"+name, Wrappers)); p != nil {
				if i > 0 {
					for _, prefix := range with {
						p.prefix(l, prefix)
					}
				}
				return p, i == 0
			}
		}
	}
	return nil, false
}

// asks reports whether a file names one of the libraries of the driver, or of the toolkit, which opens these.
func asks(f *files.File) bool {
	return slices.ContainsFunc(f.Needed, driver.NeedsDriver) || slices.ContainsFunc(f.Literals(),
		func(l files.Literal) bool { return l.Driver }) ||
		slices.ContainsFunc(f.Notes(), func(n elfimage.DlopenNote) bool {
			return slices.ContainsFunc(n.Sonames, driver.NeedsDriver)
		})
}
