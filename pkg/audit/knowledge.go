package audit

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"sync"

	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/process"
	"cuda-runpath/pkg/starts"
)

// knowledge is what the audit has learnt from all its files together.
type knowledge struct {
	mu sync.Mutex
	// starts are those of programs that wrappers start, by the program's path on this machine.
	starts map[string][]process.Start
	// met are the requests (file, name) that are met in the process of a program, alone those that are in the load of a
	// library, as somebody may open it; held are, with no name, the files that are in the process of a program.
	met, alone, held map[[2]string]bool
	// provides are the absolute paths of the examined files by soname and by file name.
	provides map[string][]string
	examined map[string]bool // by the path on this machine
	// loaders are the files in whose loads a name was found, of each name one: a program wherever there
	// is one, the first by its path.
	loaders map[asked]opener
	// opens are the files that have a name among their strings, the first two by their paths of each.
	opens map[asked][]string
}

// asked is a name as processes of one kind ask for it: a library for another machine, or C library, is none of theirs.
type asked struct {
	name string
	abi  files.ABI
	kind loader.Kind
}

func askedBy(s *loader.Load, name string) asked {
	abi, _ := s.Main.File.ABI()
	return asked{name, abi, s.Interp.Kind}
}

// opener is a file that loads others.
type opener struct {
	path    string
	file    *files.File
	program bool
}

func newKnowledge() *knowledge {
	return &knowledge{
		starts: map[string][]process.Start{}, met: map[[2]string]bool{}, alone: map[[2]string]bool{},
		held:     map[[2]string]bool{},
		provides: map[string][]string{}, examined: map[string]bool{}, loaders: map[asked]opener{},
		opens: map[asked][]string{},
	}
}

// learn remembers what the load of a file shows.
func (c *knowledge) learn(name string, of *explain.Case) {
	c.mu.Lock()
	defer c.mu.Unlock()
	main := of.Load.Main.File
	who := opener{name, main, of.Load.Role == loader.Program}
	c.examined[main.Path] = true
	at := name
	if abs, err := filepath.Abs(at); err == nil {
		at = abs // as it was named on the command line, it would be relative to any working directory
	}
	for _, name := range []string{main.Soname, path.Base(at)} {
		if name != "" && !slices.Contains(c.provides[name], at) {
			c.provides[name] = append(c.provides[name], at)
		}
	}
	for _, l := range main.Literals() {
		name := askedBy(of.Load, path.Base(l.Name))
		if by := c.opens[name]; !slices.Contains(by, main.Path) {
			by = append(by, main.Path)
			slices.Sort(by)
			c.opens[name] = by[:min(len(by), 2)]
		}
	}
	c.objects(who, of)
}

// holds remembers what is in the process of a script, which is none of the files that are examined as ELF files.
func (c *knowledge) holds(script string, of *explain.Case) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects(opener{script, of.Main.File, true}, of)
}

// objects remembers what is in a process.
func (c *knowledge) objects(who opener, of *explain.Case) {
	for _, o := range of.Load.Objects {
		if o.File == nil || slices.ContainsFunc(of.Failed, func(p *loader.Opening) bool { // who knows in which order
			return p.Later != nil && slices.Contains(p.Later.Brought, o)
		}) {
			continue
		}
		if of.Role == loader.Program {
			c.held[of.Request(o, "")] = true
		}
		for _, u := range o.Uses {
			if !u.To.Found() || slices.ContainsFunc(u.To.Lacks, func(l loader.Lack) bool { return l.By == o }) {
				continue
			}
			if request := of.Request(o, u.Name); of.Role == loader.Program {
				c.met[request] = true
			} else if o != of.Main {
				c.alone[request] = true
			}
			name := askedBy(of.Load, u.Name)
			if by, known := c.loaders[name]; !known || who.program && !by.program ||
				who.program == by.program && who.path < by.path {
				c.loaders[name] = who
			}
		}
	}
}

// excused reports whether a start that exists has what a library by itself does not find: the process of a program that
// it is in or, where it is in none, a library that loads it and that somebody may open. What a program lacks, it lacks.
func (c *knowledge) excused(s *explain.Case, f *finding.Finding) bool {
	_, by := s.Sides(f)
	if s.Role == loader.Program || by == nil || by.File == nil {
		return false
	}
	request := s.Request(by, f.Library)
	// A library that finds a stub by itself finds it: only a program's process settles that.
	return c.met[request] || !f.Driver && f.ID != finding.StubLoaded && c.alone[request] &&
		!c.held[s.Request(by, "")]
}

// finds reports whether an object finds a name in the process of a program that opens the file of a case.
func (u *Audit) finds(program string, s *explain.Case, by *loader.Object, name string) bool {
	state, err := u.modules.Begin(u.Loader, program, starts.Wrappers)
	if err != nil || state.Role == loader.Static {
		return false
	}
	state.OpenAll(state.Likely(false), func(string) bool { return false })
	state.Open(u.Loader.Absolute(s.Main.Path), state.Main, loader.DlopenAsked, "")
	return slices.ContainsFunc(state.WithFailed(), func(o *loader.Object) bool {
		return o.File == by.File && slices.ContainsFunc(o.Uses, func(use loader.Use) bool {
			return use.Name == name && use.To.Found() && use.To.Err == ""
		})
	})
}

// before says what may have loaded a library of a name before a file that needs it and does
// not find it, and how bad it is to rely on that: an error where nothing is known to.
func (u *Audit) before(name string, object *loader.Object, of *explain.Case) (who string, s finding.Severity) {
	c, file, load, imported := u.known, object.File, of.Load, u.imported()
	if imported.Loads(file.Path, name) {
		return "; what its package imports loads it before", finding.Note
	}
	by, ok := c.loaders[askedBy(load, name)]
	if ok && by.program && u.finds(by.path, of, object, name) {
		return fmt.Sprintf("; it works where it was loaded before, as %s does", by.path), finding.Note
	}
	if others := slices.DeleteFunc(slices.Clone(c.opens[askedBy(load, name)]),
		func(p string) bool { return p == file.Path }); len(others) > 0 {
		return fmt.Sprintf("; it works where it was loaded before, as %s may do, which has that name among its strings",
			others[0]), finding.Note
	}
	// What the file itself loads is not there before it.
	if ok && !by.program && !slices.ContainsFunc(load.Objects, func(o *loader.Object) bool { return o.File == by.file }) {
		return fmt.Sprintf("; it works only where it was loaded before, by %s", by.path), finding.Warning
	}
	if !imported.Reaches(of.Main.File.Path) {
		return unreached, finding.Warning
	}
	return "", finding.Error
}

const unreached = "; no import of its package reaches it"

// provider returns the file of a name that is nearest to another file, the one
// that has the longest part of its path in common with it, of those that fit.
func (c *knowledge) provider(name, near string, fits func(file string) bool) string {
	best, most := "", -1
	for _, p := range c.provides[name] {
		n := 0
		for n < len(p) && n < len(near) && p[n] == near[n] {
			n++
		}
		if (n > most || n == most && p < best) && fits(p) {
			best, most = p, n
		}
	}
	return best
}

// unresolved reports what is missing, once all files have been seen.
func (u *Audit) unresolved(s *explain.Case) (all []finding.Finding) {
	c := u.known
	s.Provider = c.provider
	indirect := map[string]bool{}
	for _, f := range s.Open() {
		of, by := s.Sides(&f)
		direct := by == s.Load.Main
		there := !direct && by != nil && by.File != nil && c.examined[by.File.Path] // it has a report of its own
		switch {
		case f.ID == finding.OpenFails:
			// What is missing for it, its own report says; not what is wrong with it in this process.
			if of == nil || of.File == nil || !c.examined[of.File.Path] || !explain.Misses(of) {
				all = append(all, f)
			}
		case f.ID == finding.UndefinedSymbol, f.ID == finding.TwoMajors:
			if s.Role == loader.Program || !c.held[s.Request(s.Main, "")] { // else it is judged where a program loads it
				all = append(all, f)
			}
		case f.Driver, f.ID == finding.OpenedAbsent:
			if !there && !c.excused(s, &f) {
				all = append(all, f)
			}
		case c.excused(s, &f), by != nil && by.File != nil && u.imported().Finds(by.File.Path, f.Library):
		case f.ID == finding.MissingVersion:
			if direct || s.Load.Role == loader.Program {
				all = append(all, f)
			}
		case direct, (s.Load.Role == loader.Program || !there) && !indirect[f.Library]:
			indirect[f.Library] = indirect[f.Library] || !direct
			if s.Load.Role != loader.Program && f.Severity == finding.Error {
				var who string
				who, f.Severity = u.before(f.Library, by, s)
				f.Message, f.Part = f.Message+who, who == unreached
			}
			all = append(all, f.Strictly(s.Strict))
		}
	}
	return all
}
