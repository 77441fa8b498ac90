package starts

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/process"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/scripts/syntax"
)

// Python is an installation of Python: an interpreter, and where it imports from.
type Python struct {
	process.Start          // of the interpreter
	Version       string   // as in "python3.12"; "" where the interpreter's name does not tell
	Std           []string // the directories of its own modules
	Sites         []string // of what was installed
}

var pythonName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:python|pypy)[0-9.]*t?$`) })

// maxModules bounds the modules that are read for a script, maxSource each of them in bytes.
const (
	maxModules = 1000
	maxSource  = 1 << 20
)

// PythonOf returns the installation that a start's program is the interpreter of, nil for any other program: by site.py
// and getpath.py, from the directory of the name it is started by, and a pyvenv.cfg beside or above that. nixpkgs'
// environments wrap it.
func PythonOf(l *loader.Loader, t process.Start) *Python {
	if !pythonName().MatchString(path.Base(t.File)) {
		return nil
	}
	p := &Python{Start: t}
	real := t.File
	if host, _, err := l.Files().Resolve(l.Absolute(t.File)); err == nil {
		real = l.Inside(host)
	}
	if name := path.Base(real); strings.Contains(name, ".") {
		p.Version = name
	}
	for _, name := range append(slices.Clone(t.Via), t.File, real) {
		if bin := path.Dir(l.Absolute(name)); pythonName().MatchString(path.Base(name)) && !p.virtual(l, bin) {
			p.prefix(l, path.Dir(bin))
		} else if pythonName().MatchString(path.Base(name)) {
			break // of a virtual environment nothing else counts
		}
	}
	return p
}

// virtual takes up the virtual environment of a directory of programs, and reports whether it is one's.
func (p *Python) virtual(l *loader.Loader, bin string) bool {
	for _, dir := range []string{bin, path.Dir(bin)} {
		text := source(l, dir+"/pyvenv.cfg")
		if text == "" {
			continue
		}
		set := map[string]string{}
		for line := range strings.Lines(text) {
			if key, value, ok := strings.Cut(line, "="); ok {
				set[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(value)
			}
		}
		p.prefix(l, path.Dir(bin))
		sites := len(p.Sites)
		if p.prefix(l, path.Dir(set["home"])); !strings.EqualFold(set["include-system-site-packages"], "true") {
			p.Sites = p.Sites[:sites]
		}
		return true
	}
	return false
}

// prefix takes up what is below a directory in which Python was installed.
func (p *Python) prefix(l *loader.Loader, prefix string) {
	add := func(all *[]string, dir string) {
		if !slices.Contains(*all, dir) && l.Files().IsDir(dir) {
			*all = append(*all, dir)
			if all == &p.Sites {
				p.links(l, dir)
			}
		}
	}
	for _, lib := range []string{"/lib", "/lib64", "/local/lib"} {
		names := l.Files().Names(prefix + lib)
		for _, version := range sorted(names) {
			if !strings.HasPrefix(version, "python3.") && !strings.HasPrefix(version, "pypy3.") ||
				p.Version != "" && version != p.Version {
				continue
			}
			dir := prefix + lib + "/" + version
			if l.Files().Names(dir)["os.py"] {
				add(&p.Std, dir)
				add(&p.Std, dir+"/lib-dynload")
			}
			add(&p.Sites, dir+"/site-packages")
			add(&p.Sites, dir+"/dist-packages") // Debian's
		}
		if names["python3"] {
			add(&p.Sites, prefix+lib+"/python3/dist-packages")
		}
	}
}

// links takes up the directories that the .pth files of one name.
func (p *Python) links(l *loader.Loader, site string) {
	for _, name := range sorted(l.Files().Names(site)) {
		if !strings.HasSuffix(name, ".pth") {
			continue
		}
		for line := range strings.Lines(source(l, site+"/"+name)) {
			dir := strings.TrimSpace(line)
			if dir == "" || dir[0] == '#' || strings.HasPrefix(dir, "import ") || strings.HasPrefix(dir, "import\t") {
				continue
			}
			if !strings.HasPrefix(dir, "/") {
				dir = path.Join(site, dir)
			}
			if !slices.Contains(p.Sites, dir) && l.Files().IsDir(dir) {
				p.Sites = append(p.Sites, dir)
			}
		}
	}
}

func sorted(names map[string]bool) []string {
	all := make([]string, 0, len(names))
	for name := range names {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// source returns a text; "" where it cannot be read.
func source(l *loader.Loader, file string) string {
	host, _, err := l.Files().Resolve(file)
	if err != nil {
		return ""
	}
	text, _ := regular.Read(host, maxSource)
	return string(text)
}

// Module reports whether a file has the name of an extension module, and may be imported: NAME.so, NAME.abi3.so, or
// that of a version.
func (p *Python) Module(file string) (name string, ok bool) {
	name, tag, _ := strings.Cut(strings.TrimSuffix(file, ".so"), ".")
	if !strings.HasSuffix(file, ".so") || name == "" {
		return "", false
	}
	its, cpython := strings.CutPrefix(tag, "cpython-")
	its, _, _ = strings.Cut(its, "-")
	return name, tag == "" || tag == "abi3" || cpython && (p.Version == "" ||
		p.Version == "python"+its[:min(1, len(its))]+"."+its[min(1, len(its)):])
}

// script returns what a script has the interpreter open: modules by importing them, and those that modules import
// whenever they are imported themselves; libraries by ctypes and cffi.
func (p *Python) script(l *loader.Loader, k *Modules, file string) []process.Wanted {
	text := source(l, l.Absolute(file))
	at := l.Absolute(file)
	if host, _, err := l.Files().Resolve(at); err == nil { // as Python does with the script's own name
		at = l.Inside(host)
	}
	m := p.importer(l, k)
	m.dirs = append(append([]string{path.Dir(at)}, m.dirs...), syntax.SiteDirectories(text)...)
	m.follow(syntax.Opens(text), file, "", true)
	return m.found
}

// ctypes returns the files of the module that opens libraries, where some are among what is opened: it calls dlopen, by
// its own run path.
func (p *Python) ctypes(l *loader.Loader, opens []process.Wanted) (files []string) {
	if !slices.ContainsFunc(opens, func(w process.Wanted) bool { return !w.Module }) {
		return nil
	}
	for _, std := range p.Std {
		for _, name := range sorted(l.Files().Names(std)) {
			if strings.HasPrefix(name, "_ctypes.") {
				files = append(files, std+"/"+name)
			}
		}
	}
	return files
}

// Modules keeps what Python's modules open whenever they are imported, by their files: many scripts of a tree import
// the same thousands of modules. The zero value is ready; methods may be called concurrently, for loaders of one root.
type Modules struct{ read, extensions sync.Map }

// extensionsIn returns the names of a directory's extension modules with their files; of several the one whose name
// says most.
func (k *Modules) extensionsIn(p *Python, dir string, names map[string]bool) map[string]string {
	key := [2]string{p.Version, dir}
	all, kept := k.extensions.Load(key)
	if !kept {
		found := map[string]string{}
		for n := range names {
			is, ok := p.Module(n)
			if old := found[is]; ok && (len(n) > len(old) || len(n) == len(old) && n > old) {
				found[is] = n
			}
		}
		all, _ = k.extensions.LoadOrStore(key, found)
	}
	return all.(map[string]string)
}

// opens returns what a module opens; what stands in a block may be of another system, or taken back.
func (k *Modules) opens(l *loader.Loader, file string) []syntax.Open {
	read, kept := k.read.Load(file)
	if !kept {
		read, _ = k.read.LoadOrStore(file, sync.OnceValue(func() (sure []syntax.Open) {
			for _, o := range syntax.Opens(source(l, file)) {
				if o.Sure {
					sure = append(sure, o.Clone())
				}
			}
			return sure
		}))
	}
	return read.(func() []syntax.Open)()
}

// importer follows what is imported.
type importer struct {
	l       *loader.Loader
	python  *Python
	modules *Modules
	dirs    []string // in which modules are looked for, the first one first
	seen    map[string]bool
	found   []process.Wanted
	places  map[string]located
	loaded  map[string]bool // by the names that were imported: what load said
}

// located is where a module is: its file, and the directories of what is in it where it is a package.
type located struct {
	file  string
	below []string
}

// importer returns one that looks in the directories that every program has.
func (p *Python) importer(l *loader.Loader, k *Modules) *importer {
	return &importer{l: l, python: p, modules: k, dirs: slices.Concat(p.Std, p.Sites), seen: map[string]bool{},
		places: map[string]located{}, loaded: map[string]bool{}}
}

// imports returns what a program has the interpreter open that imports a module, by its name.
func (m *importer) imports(name, by string) []process.Wanted {
	m.seen, m.loaded, m.found = map[string]bool{}, map[string]bool{}, nil
	if name != "" {
		m.load(name, by, true)
	}
	return m.found
}

// root returns the package by which programs come to a file, and its name: the outermost one above it, or itself where
// it is a module that is in none; "" where it is below no directory of modules.
func (m *importer) root(file string) (at, name string) {
	site := ""
	for _, dir := range m.dirs {
		if strings.HasPrefix(file, dir+"/") && len(dir) > len(site) {
			site = dir
		}
	}
	if site == "" {
		return "", ""
	}
	parts := strings.Split(strings.TrimPrefix(file, site+"/"), "/")
	at = site
	for i, part := range parts[:len(parts)-1] {
		at += "/" + part
		if m.module(at, m.l.Files().Names(at), "__init__") != "" {
			return at, strings.Join(parts[:i+1], ".")
		}
	}
	last := len(parts) - 1
	if is, ok := m.python.Module(parts[last]); ok {
		parts[last] = is
		return file, strings.Join(parts, ".")
	}
	return "", ""
}

// follow takes up what a text opens. sure says that the text is run whenever the script is.
func (m *importer) follow(text []syntax.Open, file, pkg string, sure bool) {
	for _, o := range text {
		o.Sure = o.Sure && sure
		if o.Library != "" {
			m.found = append(m.found, process.Wanted{Name: o.Library, By: file, Sure: o.Sure, Global: o.Global})
			continue
		}
		name, base := strings.TrimLeft(o.Module, "."), pkg
		if dots := len(o.Module) - len(name); dots > 0 {
			for ; dots > 1; dots-- {
				base = base[:max(0, strings.LastIndexByte(base, '.'))]
			}
			if base == "" {
				continue
			}
			name = strings.TrimSuffix(base+"."+name, ".")
		}
		if !m.load(name, file, o.Sure) {
			continue
		}
		for _, n := range o.Names {
			m.load(name+"."+n, file, o.Sure)
		}
	}
}

// load imports a module, its packages before it, and reports whether it is one that was installed. Once it was imported
// nothing happens.
func (m *importer) load(name, by string, sure bool) bool {
	installed, before := m.loaded[name]
	if !before {
		m.loaded[name] = true // while it is imported
		installed = m.first(name, by, sure)
		m.loaded[name] = installed
	}
	return installed
}

// first is load of a name for the first time.
func (m *importer) first(name, by string, sure bool) bool {
	dirs := m.dirs
	done := ""
	for i, part := range strings.Split(name, ".") {
		key := done + "." + part // by the packages before it, where that is looked for
		at, known := m.places[key]
		if !known {
			at.file, at.below = m.find(dirs, part)
			m.places[key] = at
		}
		file, below := at.file, at.below
		if file == "" && below == nil || i == 0 && slices.ContainsFunc(m.python.Std,
			func(dir string) bool { return path.Dir(file) == dir || slices.Contains(below, dir+"/"+part) }) {
			return false
		}
		done = strings.TrimPrefix(done+"."+part, ".")
		dirs = below
		if file == "" || m.seen[file] || len(m.seen) > maxModules {
			continue
		}
		m.seen[file] = true
		if strings.HasSuffix(file, ".so") {
			m.found = append(m.found, process.Wanted{Name: file, Module: true, By: by, Sure: sure})
			continue
		}
		pkg := done
		if below == nil {
			pkg = done[:max(0, strings.LastIndexByte(done, '.'))]
		}
		m.follow(m.modules.opens(m.l, file), file, pkg, sure)
	}
	return true
}

// find looks for a module in directories, and returns its file, and the directories of what is in it where it is a
// package.
func (m *importer) find(dirs []string, name string) (file string, below []string) {
	for _, dir := range dirs {
		names := m.l.Files().Names(dir)
		if sub := dir + "/" + name; names[name] && m.l.Files().IsDir(sub) {
			inside := m.l.Files().Names(sub)
			if at := m.module(sub, inside, "__init__"); at != "" {
				return at, []string{sub}
			}
			below = append(below, sub) // of a namespace
		}
		if at := m.module(dir, names, name); at != "" {
			return at, nil
		}
	}
	return "", below
}

// module returns the file of a module in a directory: that of an extension before a source, as importlib has them.
func (m *importer) module(dir string, names map[string]bool, name string) string {
	if file := m.modules.extensionsIn(m.python, dir, names)[name]; file != "" {
		return dir + "/" + file
	}
	if names[name+".py"] {
		return dir + "/" + name + ".py"
	}
	return ""
}
