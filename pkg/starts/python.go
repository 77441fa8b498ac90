package starts

import (
	"maps"
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
	Sites         []string // of what was installed, each once, whatever names lead there

	named map[string]bool // where Sites lead, and whether only a .pth file names that
	dirs  *directories    // Std and Sites, once that is all
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
	p := &Python{Start: t, named: map[string]bool{}}
	real := t.File
	if host, _, err := l.Files().Resolve(l.Absolute(t.File)); err == nil {
		real = l.Inside(host)
	}
	if name := path.Base(real); strings.Contains(name, ".") {
		p.Version = name
	}
	for _, name := range append(slices.Clone(t.Via), t.File, real) {
		if bin := path.Dir(l.Absolute(name)); pythonName().MatchString(path.Base(name)) && !p.virtual(l, bin) {
			p.prefix(l, path.Dir(bin), true)
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
		p.prefix(l, path.Dir(bin), true)
		p.prefix(l, path.Dir(set["home"]), strings.EqualFold(set["include-system-site-packages"], "true"))
		return true
	}
	return false
}

// prefix takes up what is below a directory in which Python was installed; sites says that others' modules count.
func (p *Python) prefix(l *loader.Loader, prefix string, sites bool) {
	std := func(dir string) {
		if !slices.Contains(p.Std, dir) && l.Files().IsDir(dir) {
			p.Std = append(p.Std, dir)
		}
	}
	site := func(dir string) {
		if sites {
			p.site(l, dir, false)
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
				std(dir)
				std(dir + "/lib-dynload")
			}
			site(dir + "/site-packages")
			site(dir + "/dist-packages") // Debian's
		}
		if names["python3"] {
			site(prefix + lib + "/python3/dist-packages")
		}
	}
}

// site takes up a directory of what was installed, and those that it names; named says that a .pth file names it.
func (p *Python) site(l *loader.Loader, dir string, named bool) {
	at := l.Files().At(dir)
	before, known := p.named[at.Host]
	if !l.Files().IsDir(dir) || known && (named || !before) {
		return
	}
	if p.named[at.Host] = named; !known {
		p.Sites = append(p.Sites, dir)
	}
	if !named {
		p.links(l, dir)
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
			p.site(l, dir, true)
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

// module reports whether a file has the name of an extension module, and may be imported: NAME.so, NAME.abi3.so, or
// that of a version.
func (p *Python) module(file string) (name string, ok bool) {
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
	m := p.importer(l, k, path.Dir(at), syntax.SiteDirectories(text))
	m.follow(syntax.Opens(text), file, "", true)
	return m.found()
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
type Modules struct {
	read, extensions, pythons sync.Map

	lock     sync.Mutex
	searches map[string]*search // for all programs, and of the directories of the last scripts
}

// lastSearches is for how many directories of scripts what was found is kept: scripts come in the order of their paths.
const lastSearches = 4

// search returns what is kept of one in some directories: one before those of every program, if it is not "", and some
// behind.
func (k *Modules) search(l *loader.Loader, all *directories, before string, behind []string) *search {
	k.lock.Lock()
	defer k.lock.Unlock()
	key := strings.Join(append([]string{before}, behind...), "\x00")
	if s, kept := k.searches[key]; kept && s.all == all {
		return s
	}
	if len(k.searches) > lastSearches {
		maps.DeleteFunc(k.searches, func(key string, _ *search) bool { return key != "" })
	}
	s := &search{all: all, dirs: []*directories{all, directoriesOf(l, behind)}}
	if before != "" {
		s.dirs = slices.Insert(s.dirs, 0, directoriesOf(l, []string{before}))
	}
	if k.searches == nil {
		k.searches = map[string]*search{}
	}
	k.searches[key] = s
	return s
}

// pythonOf is [PythonOf], found once for what a program is called.
func (k *Modules) pythonOf(l *loader.Loader, t process.Start) *Python {
	called := []string{t.File}
	for _, name := range t.Via {
		if pythonName().MatchString(path.Base(name)) {
			called = append(called, name)
		}
	}
	key := strings.Join(called, "\x00")
	kept, found := k.pythons.Load(key)
	if !found {
		p := PythonOf(l, t)
		if p != nil {
			p.dirs = directoriesOf(l, slices.Concat(p.Std, p.Sites))
		}
		kept, _ = k.pythons.LoadOrStore(key, p)
	}
	p := kept.(*Python)
	if p == nil {
		return nil
	}
	its := *p
	its.Start = t
	return &its
}

// extensionsIn returns the names of a directory's extension modules with their files; of several the one whose name
// says most.
func (k *Modules) extensionsIn(p *Python, dir string, names map[string]bool) map[string]string {
	key := [2]string{p.Version, dir}
	all, kept := k.extensions.Load(key)
	if !kept {
		found := map[string]string{}
		for n := range names {
			is, ok := p.module(n)
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

// directories are some in which modules are looked for, the first one first.
type directories struct {
	list []string
	with func() map[string][]string // by the beginning of a name, up to a dot: those that have such names
}

func directoriesOf(l *loader.Loader, list []string) *directories {
	return &directories{list, sync.OnceValue(func() map[string][]string {
		with := map[string][]string{}
		for _, dir := range list {
			for name := range l.Files().Names(dir) {
				name, _, _ = strings.Cut(name, ".")
				if all := with[name]; len(all) == 0 || all[len(all)-1] != dir {
					with[name] = append(all, dir)
				}
			}
		}
		return with
	})}
}

// having returns the directories that may have a module, by its name.
func (d *directories) having(name string) []string {
	if len(d.list) <= 2 {
		return d.list
	}
	return d.with()[name]
}

// search is what was found in directories by the scripts that look there.
type search struct {
	all    *directories // of every program
	dirs   []*directories
	places sync.Map // located, by a module's name
	with   sync.Map // []step, by the module that is imported first
}

// importer follows what is imported.
type importer struct {
	l       *loader.Loader
	python  *Python
	modules *Modules
	search  *search
	below   bool // what a module imports, and not a script
	seen    map[string]bool
	steps   []step
	loaded  map[string]bool // by the names that were imported: what load said
}

// step is one while modules are imported: a file is read, or something is opened by what stands in it.
type step struct {
	file  string
	opens process.Wanted
}

// located is where a module is: its file, and the directories of what is in it where it is a package.
type located struct {
	file  string
	below *directories
}

// importer returns one that looks in the directories that every program has, in one before these, if it is not "", and in
// some behind.
func (p *Python) importer(l *loader.Loader, k *Modules, before string, behind []string) *importer {
	if p.dirs == nil {
		p.dirs = directoriesOf(l, slices.Concat(p.Std, p.Sites))
	}
	return &importer{l: l, python: p, modules: k, search: k.search(l, p.dirs, before, behind), seen: map[string]bool{},
		loaded: map[string]bool{}}
}

// imports returns what a program has the interpreter open that imports a module, by its name.
func (m *importer) imports(name, by string) []process.Wanted {
	m.seen, m.loaded, m.steps = map[string]bool{}, map[string]bool{}, nil
	if name != "" {
		m.load(name, by, true)
	}
	return m.found()
}

// found returns what was opened.
func (m *importer) found() (all []process.Wanted) {
	for _, s := range m.steps {
		if s.opens.Name != "" {
			all = append(all, s.opens)
		}
	}
	return all
}

// above returns the last of some directories that a file is below; "" where there is none.
func above(dirs map[string]bool, file string) string {
	for dir := path.Dir(file); dir != "/"; dir = path.Dir(dir) {
		if dirs[dir] {
			return dir
		}
	}
	return ""
}

func set(names ...string) map[string]bool {
	all := map[string]bool{}
	for _, name := range names {
		all[name] = true
	}
	return all
}

// root returns the package by which programs come to a file below a directory of modules, and its name: the outermost
// one above it, or itself where it is a module that is in none; "" where site is.
func (m *importer) root(site, file string) (at, name string) {
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
	if is, ok := m.python.module(parts[last]); ok {
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
			m.steps = append(m.steps, step{file, process.Wanted{Name: o.Library, By: file, Sure: o.Sure, Global: o.Global}})
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
	dirs := m.search.dirs
	done := ""
	for i, part := range strings.Split(name, ".") {
		key := done + "." + part // by the packages before it, where that is looked for
		kept, known := m.search.places.Load(key)
		if !known {
			kept, _ = m.search.places.LoadOrStore(key, m.find(dirs, part))
		}
		at := kept.(located)
		if at.file == "" && at.below == nil || i == 0 && slices.ContainsFunc(m.python.Std, func(dir string) bool {
			return path.Dir(at.file) == dir || at.below != nil && slices.Contains(at.below.list, dir+"/"+part)
		}) {
			return false
		}
		done = strings.TrimPrefix(done+"."+part, ".")
		dirs = nil
		pkg := done[:max(0, strings.LastIndexByte(done, '.'))]
		if at.below != nil {
			dirs, pkg = []*directories{at.below}, done
		}
		switch {
		case at.file == "" || m.seen[at.file] || len(m.seen) > maxModules:
		case strings.HasSuffix(at.file, ".so"):
			m.seen[at.file] = true
			m.steps = append(m.steps, step{file: at.file},
				step{at.file, process.Wanted{Name: at.file, Module: true, By: by, Sure: sure}})
		case m.below:
			m.read(at.file, pkg)
		default:
			m.take(m.with(at.file, pkg), sure)
		}
	}
	return true
}

// read imports the source of a module.
func (m *importer) read(file, pkg string) {
	m.seen[file] = true
	m.steps = append(m.steps, step{file: file})
	m.follow(m.modules.opens(m.l, file), file, pkg, true)
}

// with returns what happens when a module is imported and none was before.
func (m *importer) with(file, pkg string) []step {
	key := [2]string{file, pkg}
	kept, known := m.search.with.Load(key)
	if !known {
		first := &importer{l: m.l, python: m.python, modules: m.modules, search: m.search, below: true,
			seen: map[string]bool{}, loaded: map[string]bool{}}
		first.read(file, pkg)
		kept, _ = m.search.with.LoadOrStore(key, first.steps)
	}
	return kept.([]step)
}

// take takes up what happens when a module is imported, without what was imported before: with that all was that it
// imports itself, so that what is left is what is left of the order in which it is imported.
func (m *importer) take(steps []step, sure bool) {
	fresh := map[string]bool{}
	for _, s := range steps {
		if s.opens.Name == "" && !m.seen[s.file] && len(m.seen) <= maxModules {
			m.seen[s.file], fresh[s.file] = true, true
		}
		if s.opens.Sure = s.opens.Sure && sure; fresh[s.file] {
			m.steps = append(m.steps, s)
		}
	}
}

// find looks for a module in directories, and returns its file, and the directories of what is in it where it is a
// package.
func (m *importer) find(dirs []*directories, name string) located {
	var below []string
	for _, some := range dirs {
		for _, dir := range some.having(name) {
			names := m.l.Files().Names(dir)
			if sub := dir + "/" + name; names[name] && m.l.Files().IsDir(sub) {
				inside := m.l.Files().Names(sub)
				if at := m.module(sub, inside, "__init__"); at != "" {
					return located{at, directoriesOf(m.l, []string{sub})}
				}
				below = append(below, sub) // of a namespace
			}
			if at := m.module(dir, names, name); at != "" {
				return located{file: at}
			}
		}
	}
	if below == nil {
		return located{}
	}
	return located{below: directoriesOf(m.l, below)}
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
