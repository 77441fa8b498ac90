package process

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
	"cuda-runpath/pkg/tree"
)

// Place holds what can be started or opened: a directory, the environment of Python that it is, or an interpreter's.
type Place struct {
	// Path is below the root. Python is what opens the modules in it, nil where no interpreter is known.
	Path   string
	Python *Python
	// Starts are programs, with the wrappers before them, and modules of Python's, each imported by itself; behind them
	// libraries that ask for the driver, of which those count that are in no process before.
	Starts []Start
}

// PlaceOf returns what a directory holds, or what an interpreter of Python's may import; nil for any other file. Errors
// are [tree.Walk]'s.
func PlaceOf(ctx context.Context, l *loader.Loader, file string) (*Place, error) {
	p := &Place{Path: file}
	var walks []string
	if l.Files().IsDir(l.Absolute(file)) {
		p.Python, walks = pythonIn(l, l.Absolute(file)), []string{file}
	} else {
		t := Behind(l, file, false)
		if p.Python = PythonOf(l, t); p.Python == nil || t.Script != "" {
			return nil, nil
		}
	}
	if p.Python != nil {
		for _, site := range p.Python.Sites {
			walks = append(walks, site)
			for _, name := range sorted(l.Files().Names(site)) { // nixpkgs' environments are made of links
				if target, _ := os.Readlink(l.Host(site + "/" + name)); target != "" {
					walks = append(walks, site+"/"+name)
				}
			}
		}
	}
	var wrapped, programs, modules, others []Start
	visit := func(f *tree.File) (Start, bool) {
		at := l.Path(f.Path)
		if f.Err != nil || !f.ELF() {
			if f.Err == nil && strings.HasPrefix(string(f.Head()), "#!") {
				t := Behind(l, at, false)
				return t, len(t.Via) > 0 && t.Script == ""
			}
			return Start{}, false
		}
		l.Take(at, f.FD())
		return Start{File: at, Environment: l.Environment()}, true
	}
	err := tree.Walk(ctx, hosts(l, walks), tree.Options{FollowArguments: true}, visit, func(t Start) {
		f := l.Files().Open(l.Absolute(t.File))
		switch {
		case len(t.Via) > 0:
			wrapped = append(wrapped, t)
		case f.ELF == nil || f.ELF.SkipReason() != "":
		case f.Interp != "" && (f.Soname == "" || f.Type == elf.ET_EXEC):
			programs = append(programs, t)
		case p.imports(f):
			p.Python.Start.Environment = l.Environment()
			m := p.Python.Start
			m.Opens = []Wanted{{Name: l.Absolute(t.File), Module: true, By: "import", Sure: true}}
			modules = append(modules, m)
		case asks(f):
			others = append(others, t)
		}
	})
	for _, t := range programs {
		if !slices.ContainsFunc(wrapped, func(w Start) bool {
			return l.Files().Open(l.Absolute(w.File)) == l.Files().Open(
				l.Absolute(t.File))
		}) {
			wrapped = append(wrapped, t)
		}
	}
	p.Starts = slices.Concat(wrapped, modules, others)
	return p, err
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
// the packages which a path of a store is to be installed with.
func pythonIn(l *loader.Loader, dir string) *Python {
	at := []string{dir + "/bin"}
	for _, dep := range strings.Fields(source(l, dir+"/nix-support/propagated-build-inputs")) {
		at = append(at, dep+"/bin")
	}
	for _, bin := range at {
		names := sorted(l.Files().Names(bin))
		slices.Reverse(names) // python3.12 before python
		for _, name := range names {
			if pythonName().MatchString(name) {
				if p := PythonOf(l, Behind(l, bin+"/"+name, false)); p != nil {
					if bin != at[0] { // what it has itself is not asked about
						p.Sites = nil
					}
					return p
				}
			}
		}
	}
	return nil
}

// Name is what a start is known by: the module that is imported, the script, the wrapper, or the program.
func (t *Start) Name() string {
	switch {
	case t.Script == "" && len(t.Opens) == 1:
		return t.Opens[0].Name
	case t.Script != "":
		return t.Script
	case len(t.Via) > 0:
		return t.Via[0]
	}
	return t.File
}

// asks reports whether a file names one of the libraries of the driver, or of the toolkit, which opens these.
func asks(f *files.File) bool {
	return slices.ContainsFunc(f.Needed, driver.NeedsDriver) || slices.ContainsFunc(f.Literals(),
		func(l files.Literal) bool { return l.Driver }) ||
		slices.ContainsFunc(f.Notes(), func(n elfimage.DlopenNote) bool {
			return slices.ContainsFunc(n.Sonames, driver.NeedsDriver)
		})
}
