package starts

import (
	"context"
	"debug/elf"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/process"
	"cuda-runpath/pkg/regular"
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
	// Left says what was not looked into; "" where that is nothing.
	Left string
}

// mostNamed bounds what is looked at in the directories that only .pth files name, in names.
const mostNamed = 20000

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
			at := l.Files().At(site).Host
			if p.Python.named[at] {
				continue
			}
			if len(walks) == 0 || !strings.HasPrefix(site, l.Absolute(walks[0])+"/") {
				walks = append(walks, site)
			}
			for _, name := range sorted(l.Files().Names(site)) { // nixpkgs' environments are made of links
				if _, target, _ := regular.Lstat(at + "/" + name); target != "" {
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
		default: // the driver's own, as a compat package has them, are opened by what asks for them
			return t, !driver.Provides(path.Base(at)) && !driver.Provides(is.Soname) && asks(is)
		}
		return t, true
	}
	var all [kinds][]process.Start
	seen := map[string]bool{} // a directory may be named twice
	emit := func(t found) {
		if at := l.Absolute(t.Name()); !seen[at] {
			seen[at], all[t.kind] = true, append(all[t.kind], t.Start)
		}
	}
	err := tree.Walk(ctx, hosts(l, walks), tree.Options{FollowArguments: true}, visit, emit)
	var sites map[string]bool
	if p.Python != nil && err == nil {
		sites = set(p.Python.Sites...)
		if own {
			dirs := p.packages(l, walks)
			err = tree.Walk(ctx, dirs, tree.Options{FollowArguments: true, Shallow: true}, visit, emit)
		}
	}
	p.Starts = all[wrapped]
	behind := map[*files.File]bool{}
	for i, w := range all[wrapped] {
		p.Starts[i].Part = above(sites, l.Absolute(w.Name())) != ""
		behind[l.Files().Open(l.Absolute(w.File))] = true
	}
	for _, t := range all[program] {
		if at := l.Absolute(t.File); !behind[l.Files().Open(at)] {
			t.Part = above(sites, at) != ""
			p.Starts = append(p.Starts, t)
		}
	}
	if p.Others = all[other]; p.Python != nil {
		p.imported(l, all[module], all[other])
	}
	return p, err
}

// packages returns what is importable from the directories that only .pth files name, by its path on this machine: modules
// in these, and packages, which hold __init__.py or a module, and so on below. A .pth file may name whatever is on the
// machine: each is looked at once, the root is not, and no more than mostNamed names are. What is walked anyway is left
// out.
func (p *Place) packages(l *loader.Loader, walks []string) (all []string) {
	walked, done := map[string]bool{}, map[string]bool{}
	for _, walk := range walks {
		walked[l.Files().At(l.Absolute(walk)).Host] = true
	}
	names, left := 0, 0
	var look func(dir string, named bool)
	look = func(dir string, named bool) {
		at := l.Files().At(dir).Host
		if !l.Files().IsDir(dir) || done[at] || l.Inside(at) == "/" || walked[at] || above(walked, at) != "" {
			return
		}
		done[at] = true
		var in map[string]bool
		if left == 0 {
			in = l.Files().Names(dir)
			names += len(in)
		}
		if names > mostNamed {
			if left++; left == 1 {
				p.Left = dir
			}
			return
		}
		var modules []string
		for name := range in {
			if _, is := p.Python.module(name); is {
				modules = append(modules, dir+"/"+name)
			}
		}
		switch {
		case named:
			all = append(all, hosts(l, modules)...)
		case in["__init__.py"] || len(modules) > 0 || slices.ContainsFunc(sorted(in), isSource):
			all = append(all, hosts(l, []string{dir})...)
		default:
			return
		}
		for _, name := range sorted(in) {
			if !strings.Contains(name, ".") { // else it cannot be imported
				look(dir+"/"+name, false)
			}
		}
	}
	for _, site := range p.Python.Sites {
		if p.Python.named[l.Files().At(site).Host] {
			look(site, true)
		}
	}
	if left > 0 {
		p.Left = fmt.Sprintf(".pth files name directories with more than %d names; not examined: %s and %d other directories",
			mostNamed, p.Left, left-1)
	}
	return all
}

func isSource(name string) bool { return strings.HasSuffix(name, ".py") }

// imported makes starts of modules, and of libraries, as a program of Python's comes to them: behind what it imports
// before.
func (p *Place) imported(l *loader.Loader, modules, libraries []process.Start) {
	m := p.Python.importer(l, new(Modules), "", nil)
	dirs := set(m.python.dirs.list...)
	known := map[string]*process.Start{}
	behind := func(t process.Start, imports bool) *process.Start {
		at := l.Absolute(t.File)
		root, name := m.root(above(dirs, at), at)
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

// hosts returns paths below the root as those of this machine that are there: without their links where these would
// lead out of the root.
func hosts(l *loader.Loader, paths []string) (all []string) {
	for _, p := range paths {
		host, _, err := l.Files().Resolve(l.Absolute(p))
		if err != nil {
			continue
		}
		if real, err := regular.Real(l.Host(p)); err == nil && real == host {
			host = l.Host(p)
		}
		all = append(all, host)
	}
	return all
}

// imports reports whether a file is a module that the interpreter may import.
func (p *Place) imports(f *files.File) bool {
	if p.Python == nil {
		return false
	}
	name, ok := p.Python.module(path.Base(f.Path))
	if !ok {
		return false
	}
	linkage, err := f.Linkage()
	return err == nil && (linkage.HasName("PyInit_") || name == "__init__")
}

// pythonIn returns the installation of Python that a directory is, or is for: the interpreter in its bin, else that of
// the packages which a path of a store is to be installed with, where modules are found that this one imports; own says
// that it is in the directory. nil where none is known.
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
						p.prefix(l, prefix, true)
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
