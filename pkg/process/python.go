package process

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/scripts/syntax"
)

// Wanted is what a script has its interpreter open.
type Wanted struct {
	Name   string // of a module its path; of a library what ctypes is given
	Module bool
	By     string // the script, or module, that says so
	Sure   bool   // it is opened whenever the script is run, as far as its text shows
	Global bool   // what comes later finds its symbols
}

// Python is an installation of Python: an interpreter, and where it imports from.
type Python struct {
	Start            // of the interpreter
	Version string   // as in "python3.12"; "" where the interpreter's name does not tell
	Std     []string // the directories of its own modules
	Sites   []string // of what was installed
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
func PythonOf(l *loader.Loader, t Start) *Python {
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
func (p *Python) script(l *loader.Loader, file string) []Wanted {
	text := source(l, l.Absolute(file))
	at := l.Absolute(file)
	if host, _, err := l.Files().Resolve(at); err == nil { // as Python does with the script's own name
		at = l.Inside(host)
	}
	m := &importer{l: l, python: p, own: path.Dir(at), more: syntax.SiteDirectories(text), seen: map[string]bool{}}
	m.follow(text, file, "", false, true)
	return m.found
}

// importer follows what a script imports.
type importer struct {
	l      *loader.Loader
	python *Python
	own    string   // the script's directory
	more   []string // directories that it adds
	seen   map[string]bool
	found  []Wanted
}

// follow takes up what a text opens; those of a module that are in a block may be of another system, or taken back.
// sure says that the text is run whenever the script is.
func (m *importer) follow(text, file, pkg string, sureOnly, sure bool) {
	for _, o := range syntax.Opens(text) {
		if sureOnly && !o.Sure {
			continue
		}
		o.Sure = o.Sure && sure
		if o.Library != "" {
			m.found = append(m.found, Wanted{Name: o.Library, By: file, Sure: o.Sure, Global: o.Global})
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

// load imports a module, its packages before it, and reports whether it is one that was installed.
func (m *importer) load(name, by string, sure bool) bool {
	dirs := append(append(append([]string{m.own}, m.python.Std...), m.python.Sites...), m.more...)
	done := ""
	for i, part := range strings.Split(name, ".") {
		file, below := m.find(dirs, part)
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
			m.found = append(m.found, Wanted{Name: file, Module: true, By: by, Sure: sure})
			continue
		}
		pkg := done
		if below == nil {
			pkg = done[:max(0, strings.LastIndexByte(done, '.'))]
		}
		m.follow(source(m.l, file), file, pkg, true, sure)
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
func (m *importer) module(dir string, names map[string]bool, name string) (file string) {
	for n := range names {
		if !strings.HasPrefix(n, name) || !strings.HasSuffix(n, ".so") {
			continue
		}
		if is, ok := m.python.Module(n); ok && is == name && (file == "" || len(n) > len(path.Base(file))) {
			file = dir + "/" + n
		}
	}
	if file == "" && names[name+".py"] {
		file = dir + "/" + name + ".py"
	}
	return file
}
