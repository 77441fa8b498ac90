package audit

import (
	"debug/elf"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/gpucode"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/runpath"
)

// Options say what counts as whose directory.
type Options struct {
	explain.Layout
	Ignore []string // sonames, or patterns of path.Match, that are no ambiguity
	Strict bool     // warnings count as errors
	Loads  bool     // keep what each file loads in its report
	Noted  bool     // keep there what its resolution note alone names
	// GPUs are those that the files' GPU code is to be for; none: it is not looked at.
	GPUs []gpucode.Target
}

// Validate says what is wrong with the options.
func (o *Options) Validate() error {
	for _, pattern := range o.Ignore {
		if err := driver.CheckPattern(pattern); err != nil {
			return err
		}
	}
	return nil
}

// Auditor examines files. It is safe for concurrent use.
type Auditor struct {
	Options
	Loader *loader.Loader

	shared sync.Map // directories → names that several of them hold
	same   sync.Map // pair of paths → bool
	saved  func(pkg, ref string) (bytes int64, ok bool)
}

// New returns an auditor.
func New(l *loader.Loader, o Options) *Auditor {
	return &Auditor{Options: o, Loader: l, saved: Saved(strings.TrimSuffix(l.Host("/"), "/"))}
}

// entry is one entry of a file's run path, looked at.
type entry struct {
	text     string
	position int // from 1
	key      string
	dir      string // below the root; "" where the loader ignores the entry
	driver   bool
	compat   bool
	stub     bool
}

// subject is a file under examination.
type subject struct {
	*Auditor
	path    string
	at      string // path below the root, links resolved
	long    bool   // there are more entries than entries has
	load    *loader.Load
	file    *loader.File
	entries []entry
	// own are the names that the loader looks up through the file's run path.
	own   map[string]bool
	maybe map[string]bool // further such names, guessed from parts of longer strings
	found []Finding
	rest  []entry // the run path once the remedies of found have been followed
	// replaced are, by the keys of entries, what these remedies put in their place.
	replaced map[string]replacement
	its      *explain.Case // what is concluded of the load
}

// maxEntries bounds the entries that are looked at; no real run path has that many.
const maxEntries = 2000

func (a *Auditor) subject(p string, load *loader.Load) *subject {
	s := &subject{Auditor: a, path: p, load: load, file: load.Main.File, at: a.Loader.Inside(load.Main.File.Path)}
	s.its = &explain.Case{Layout: &a.Layout, Load: load, Operand: s.operand()}
	for i, text := range runpath.Parse(s.file.List) {
		if i == maxEntries {
			s.long = true
			break
		}
		s.entries = append(s.entries, s.entry(text, i+1))
	}
	s.rest = slices.Clone(s.entries)
	return s
}

// entry looks at an entry of the file's run path, or at what could be one.
func (s *subject) entry(text string, position int) entry {
	e := entry{text: text, position: position, key: runpath.Key(text)}
	e.dir, _ = s.load.Expand(s.load.Main, text)
	e.driver = e.key == runpath.Key(s.Link(s.file.ELF.Machine))
	e.stub = s.StubDirs.Contains(e.key)
	e.compat = !e.driver && s.IsCompat(s.load, text, e.dir)
	return e
}

func (s *subject) report(f Finding) {
	if f.Severity == "" {
		f.Severity = rule(f.ID).Severity
	}
	if s.its != nil {
		driven := f.ID == StubEntry || f.ID == explain.DriverBeforeCompat || f.ID == Ambiguous && driver.Provides(f.Library)
		if file := s.its.File(s.load.Main, driven); file.Object != "" && f.FixInPackage() != remedy.Text(f.Fix) {
			f.Remedy = remedy.InPackage(file, f.FixInPackage())
		}
	}
	if s.Strict && f.Severity == Warning {
		f.Severity = Error
	}
	s.found = append(s.found, f)
}

func (e *entry) in(f Finding) Finding {
	f.Entry, f.Position = &e.text, e.position
	return f
}

// of reports a finding of an entry: what it is.
func (s *subject) of(e *entry, id string, fix remedy.Remedy, is string, args ...any) {
	s.report(e.in(Finding{ID: id, Message: fmt.Sprintf("entry %d, %s, ", e.position, e.text) + fmt.Sprintf(is, args...), Remedy: fix}))
}

// collectNames fills own and maybe. With DT_RUNPATH the loader looks up what the
// file itself asks for, at start or by dlopen; with DT_RPATH what its libraries
// ask for too.
func (s *subject) collectNames() {
	s.own, s.maybe = map[string]bool{}, map[string]bool{}
	for _, n := range s.file.Needed {
		s.own[n] = true
	}
	for _, l := range s.file.Literals() {
		switch {
		case l.Name == s.file.Soname:
		case l.Exact:
			s.own[l.Name] = true
		default:
			s.maybe[l.Name] = true
		}
	}
	for _, note := range s.file.Notes() {
		for _, n := range note.Sonames {
			s.own[n] = true
		}
	}
	if s.file.Tag == elf.DT_RPATH {
		for _, o := range s.load.Objects {
			for _, u := range o.Uses {
				s.own[u.Name] = true
			}
		}
	}
}

// safety reports what noRunpathAmbiguity refuses beside ambiguous names.
func (s *subject) safety() {
	for i := range s.entries {
		e := &s.entries[i]
		switch {
		case e.text == "":
			s.report(e.in(Finding{ID: EmptyEntry,
				Message: fmt.Sprintf("entry %d of the run path %q is empty: the loader searches the working directory there", e.position, brief(s.file.List)),
				Remedy:  s.normalize().And("; if the working directory is really meant, write \".\"")}))
		case e.stub:
			more := ""
			if names := s.heldNames(e); len(names) > 0 {
				more = ", and the loader looks for " + remedy.List(names) + " there"
			}
			s.of(e, StubEntry, s.its.EditForDriver(s.load.Main, s.StubReplace()...), "is a stub directory%s", more)
		}
	}
	s.neededPaths()
	for _, p := range s.its.Note(s.load.Main) {
		s.report(Concluded(p))
	}
	var link *entry
	for i := range s.entries {
		e := &s.entries[i]
		if e.driver && link == nil {
			link = e
		}
		if e.compat && link != nil {
			s.report(e.in(Finding{ID: explain.DriverBeforeCompat, Library: driver.LibCUDA,
				Message: fmt.Sprintf("the driver link %s is entry %d, before the compat directory %s, entry %d: the host's %s wins over the newer one",
					link.text, link.position, e.text, e.position, driver.LibCUDA),
				Remedy: s.normalize()}))
		}
	}
}

// neededPaths reports the names in DT_NEEDED that are paths (_dl_map_object in elf/dl-load.c,
// load_library in musl's ldso/dynlink.c) to where anyone, or nobody, may have put a file.
func (s *subject) neededPaths() {
	for _, name := range s.file.Needed {
		if !strings.Contains(name, "/") {
			continue
		}
		f := Finding{Library: name, Remedy: s.its.Search(name, s.load.Main)}
		const what = "%s, which the file needs, is named by a path, for which no run path is searched: "
		switch at := name; {
		case strings.HasPrefix(at, "/"):
			why := s.leftover(path.Dir(at))
			if why == "" {
				continue
			}
			f.ID, f.Message = BuildNeeded, fmt.Sprintf(what+"it is in %s", name, why)
		case loader.TokenAt(at) != "" && s.load.Interp.Kind == loader.GLibc:
			continue
		default:
			f.ID, f.Message = RelativeNeeded, fmt.Sprintf(what+"the loader opens it relative to the working directory", name)
		}
		s.report(f)
	}
}

// heldNames returns which of the file's own names a directory holds.
func (s *subject) heldNames(e *entry) []string {
	var names []string
	if e.dir == "" {
		return nil
	}
	for n := range s.own {
		if !strings.Contains(n, "/") && s.load.Holds(e.dir, n) {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names
}

// ignored reports whether the caller does not want to hear of a name.
func (a *Auditor) ignored(name string) bool {
	return slices.ContainsFunc(a.Ignore, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return pattern == name || ok && err == nil
	})
}

// candidate is a file that one entry offers for a name.
type candidate struct {
	entry *entry
	file  *loader.File
	path  string
}

// ambiguity reports names for which two or more entries offer different files.
func (s *subject) ambiguity() {
	type group struct {
		names []string
		first []candidate
	}
	others := map[string]*group{} // by the directories: names that the file does not ask for
	for _, name := range s.sharedNames() {
		if s.ignored(name) {
			continue
		}
		var all []candidate
		for i := range s.entries {
			e := &s.entries[i]
			if e.dir == "" || e.text == "" || e.stub {
				continue // an empty entry and a stub directory are findings of their own
			}
			f, _ := s.load.In(e.dir, name)
			if f == nil || slices.ContainsFunc(all, func(c candidate) bool { return s.isSame(c.file, f) }) {
				continue
			}
			all = append(all, candidate{e, f, strings.TrimSuffix(e.dir, "/") + "/" + name})
		}
		if len(all) < 2 || s.settled(name, all) {
			continue
		}
		if s.own[name] || s.maybe[name] {
			s.report(s.ambiguous(name, all))
			continue
		}
		// The loader asks for sonames; other names of the same files are for the linker.
		if !slices.ContainsFunc(all, func(c candidate) bool { return c.file.Soname == name || c.file.Soname == "" }) {
			continue
		}
		key := ""
		for _, c := range all {
			key += fmt.Sprint(c.entry.position, " ")
		}
		g := others[key]
		if g == nil {
			g = &group{first: all}
			others[key] = g
		}
		g.names = append(g.names, name)
	}
	for _, key := range slices.Sorted(maps.Keys(others)) {
		g := others[key]
		f := s.ambiguous(g.names[0], g.first)
		f.Severity = Warning
		dirs := []string{}
		for _, c := range g.first {
			dirs = append(dirs, fmt.Sprintf("%s (entry %d)", c.entry.text, c.entry.position))
		}
		if len(g.names) > 1 {
			f.Libraries = g.names
			f.Message = fmt.Sprintf("%s are in each of %s, and differ; the file does not need them at present; those in %s win at run time",
				remedy.List(g.names), strings.Join(dirs, ", "), g.first[0].entry.text)
		} else {
			f.Message += "; the file does not need it at present"
		}
		s.report(f)
	}
	s.shadowing()
}

// several begins the finding of a name for which there are different files: the first wins.
func (s *subject) several(name string, all []candidate) Finding {
	f := all[0].entry.in(Finding{ID: Ambiguous, Severity: Error, Library: name})
	if s.maybe[name] && !s.own[name] {
		f.Severity = Warning
	}
	for i, c := range all {
		f.Candidates = append(f.Candidates, Candidate{c.path, c.entry.position, i == 0})
	}
	return f
}

func (s *subject) ambiguous(name string, all []candidate) Finding {
	f := s.several(name, all)
	var places []string
	for _, c := range all {
		place := fmt.Sprintf("%s (entry %d)", c.path, c.entry.position)
		if at := s.Loader.Inside(c.file.Path); at != c.path {
			place = fmt.Sprintf("%s (entry %d, leads to %s)", c.path, c.entry.position, at)
		}
		places = append(places, place)
	}
	winner := all[0].path
	why := ", the first"
	if o := s.loads(name); o != nil && o.Found() && o.Path != winner {
		winner, why = o.Path, fmt.Sprintf(" (%s)", o.How(nil))
		for i := range f.Candidates {
			f.Candidates[i].Wins = f.Candidates[i].Path == o.Path
		}
	}
	f.Message = fmt.Sprintf("%s is ambiguous: different files are %s; at run time %s wins%s", name, strings.Join(places, " and "), winner, why)
	if slices.ContainsFunc(all, func(c candidate) bool { return c.entry.driver }) && driver.Provides(name) {
		var others []string
		for _, c := range all {
			if !c.entry.driver {
				others = append(others, c.entry.text)
			}
		}
		f.Remedy = s.without(others...).And(": %s comes with the host's driver; where the directory is a compat directory, name it with --compat", name)
		return f
	}
	// The first stays that no other remedy takes out.
	stays := max(0, slices.IndexFunc(all, func(c candidate) bool { return s.remains(c.entry.key) }))
	var drop []string
	for _, e := range s.entries { // the same file may be in several of them
		if e.dir == "" || e.text == "" || e.stub || slices.Contains(drop, e.text) {
			continue
		}
		if file, _ := s.load.In(e.dir, name); file != nil && !s.isSame(file, all[stays].file) {
			drop = append(drop, e.text)
		}
	}
	f.Remedy = s.without(drop...)
	if stays == 0 {
		f.Remedy = f.And(", which keeps what is loaded now; or put a directory first that holds only the right %s", name)
	}
	f.Remedy = f.And("; --ignore %s accepts it", name)
	return f
}

// loads returns the object for a name that the file itself asks for.
func (s *subject) loads(name string) *loader.Object {
	for _, u := range s.load.Main.Uses {
		if u.Name == name {
			return u.To
		}
	}
	return nil
}

// settled reports whether an ambiguity is meant, or always there.
func (s *subject) settled(name string, all []candidate) bool {
	// Compat before the driver link is the order that this project makes.
	if all[0].entry.compat {
		rest := all[1:]
		if !slices.ContainsFunc(rest, func(c candidate) bool { return !c.entry.driver && !c.entry.compat }) {
			return true
		}
	}
	// The other way round it is a finding of its own.
	if all[0].entry.driver && !slices.ContainsFunc(all[1:], func(c candidate) bool { return !c.entry.compat }) {
		return true
	}
	// nixpkgs' glibc brings a copy of libgcc_s.so.1 beside its libc.so.6, for
	// pthread_cancel; every program with gcc's own library directory in its run
	// path has both. They are of one ABI, which only grows.
	if name == "libgcc_s.so.1" {
		rest := slices.DeleteFunc(slices.Clone(all), func(c candidate) bool { return s.load.Holds(c.entry.dir, "libc.so.6") })
		return len(rest) < 2
	}
	return false
}

// shadowing reports a driver library in an ordinary directory before the driver
// link, which may not exist where the check runs.
func (s *subject) shadowing() {
	i := slices.IndexFunc(s.entries, func(e entry) bool { return e.driver })
	if i < 1 || s.Loader.Files().IsDir(s.entries[i].dir) {
		return // where the driver is installed, ambiguity reports it
	}
	for j := range s.entries[:i] {
		e := &s.entries[j]
		if e.compat || e.stub || e.dir == "" || e.text == "" {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(s.own)) {
			if driver.Provides(name) && s.load.Holds(e.dir, name) && !s.ignored(name) {
				s.report(e.in(Finding{ID: Shadowing, Library: name,
					Message: fmt.Sprintf("%s comes with the host's driver, in %s (entry %d), but %s (entry %d) holds one too, comes before it and wins at run time",
						name, s.entries[i].text, s.entries[i].position, e.text, e.position),
					Remedy: s.without(e.text).And("; where it is a compat directory, name it with --compat")}))
			}
		}
	}
}

// sharedNames returns the names of libraries that two or more of the file's
// directories hold.
func (s *subject) sharedNames() []string {
	var dirs []string
	for _, e := range s.entries {
		if e.dir != "" && e.text != "" && !e.stub && !slices.Contains(dirs, e.dir) {
			dirs = append(dirs, e.dir)
		}
	}
	if len(dirs) < 2 {
		return nil
	}
	key := strings.Join(dirs, "\x00")
	if v, ok := s.shared.Load(key); ok {
		return v.([]string)
	}
	held := map[string]int{} // in how many of the directories
	for _, dir := range dirs {
		for name := range s.Loader.Files().Names(dir) {
			if strings.Contains(name, ".so") {
				held[name]++
			}
		}
	}
	maps.DeleteFunc(held, func(_ string, n int) bool { return n < 2 })
	out := slices.Sorted(maps.Keys(held))
	s.shared.Store(key, out)
	return out
}

func (a *Auditor) isSame(f, g *loader.File) bool {
	if f.Path == g.Path {
		return true
	}
	key := f.Path + "\x00" + g.Path
	if v, ok := a.same.Load(key); ok {
		return v.(bool)
	}
	same := f.Same(g)
	a.same.Store(key, same)
	return same
}

// brief cuts a list off that is too long for a sentence.
func brief(list string) string {
	const most = 1000
	if len(list) <= most {
		return list
	}
	return list[:most] + "…"
}
