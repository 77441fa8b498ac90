package explain

import (
	"debug/elf"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/runpath"
)

// entry looks at an entry, or possible entry, of the file's run path.
func (c *Case) entry(text string, position int) entry {
	e := entry{text: text, position: position, key: runpath.Key(text)}
	e.dir, _ = c.Load.Expand(c.Load.Main, text)
	e.driver = e.key == runpath.Key(c.Link(c.file.ELF.Machine))
	e.stub = c.StubDirs.Contains(e.key)
	e.compat = !e.driver && c.isCompat(c.Load, text, e.dir)
	return e
}

func (e *entry) in(f finding.Finding) finding.Finding {
	f.Entry, f.Position = &e.text, e.position
	return f
}

// of reports a finding of an entry, with what the entry is.
func (c *Case) of(e *entry, id string, fix remedy.Remedy, is string, args ...any) {
	c.report(e.in(on(id, nil, nil, fix, "entry %d, %s, %s", e.position, e.text, fmt.Sprintf(is, args...))))
}

// collectNames fills asks. Through DT_RUNPATH the loader looks up what the file itself asks for, at start or
// by dlopen. Through DT_RPATH, and with musl's loader, it looks up what its libraries ask for, too.
func (c *Case) collectNames() {
	c.asks = map[string]evidence{}
	asks := func(name string, e evidence) { c.asks[name] = max(c.asks[name], e) }
	for _, n := range c.file.Needed {
		asks(n, certain)
	}
	for _, l := range c.file.Literals() {
		switch {
		case l.Name == c.file.Soname:
		case l.Path != "" && !l.Driver: // the loader does not search for a path
			asks(l.Name, pathEnd)
		case l.Exact:
			asks(l.Name, certain)
		default:
			asks(l.Name, guessed)
		}
	}
	for _, note := range c.file.Notes() {
		for _, n := range note.Sonames {
			asks(n, certain)
		}
	}
	if musl := c.Load.Interp != nil && c.Load.Interp.Kind == loader.Musl; musl || c.file.Tag == elf.DT_RPATH {
		for _, o := range c.Load.Objects {
			for i := 0; musl && o.File != nil && i < len(o.File.Literals()); i++ {
				asks(o.File.Literals()[i].Name, guessed)
			}
			for _, u := range o.Uses {
				asks(u.Name, certain)
			}
		}
	}
}

// safety reports what noRunpathAmbiguity refuses beside ambiguous names.
func (c *Case) safety() {
	for i := range c.entries {
		e := &c.entries[i]
		switch {
		case e.text == "":
			c.report(e.in(on(finding.EmptyEntry, nil, nil,
				c.normalize().And("; if the working directory is really meant, write \".\""),
				"entry %d of the run path %q is empty: the loader searches the working directory there", e.position,
				brief(c.file.List))))
		case e.stub:
			more := ""
			if names := c.heldNames(e); len(names) > 0 {
				more = ", where the loader looks for " + remedy.List(names)
			}
			c.of(e, finding.StubEntry, c.editForDriver(c.Load.Main, c.stubs(runpath.ReplaceStubs)), "is a stub directory%s", more)
		}
	}
	c.neededPaths()
	for _, o := range c.Load.Objects {
		for _, f := range c.note(o) {
			c.report(f)
		}
	}
	var link *entry
	for i := range c.entries {
		e := &c.entries[i]
		if e.driver && link == nil {
			link = e
		}
		if e.compat && link != nil {
			f := finding.Finding{ID: finding.DriverBeforeCompat, Library: driver.LibCUDA, Remedy: c.normalize()}
			f.Message = fmt.Sprintf(
				"the driver link %s is entry %d, before the compat directory %s, entry %d: the host's %s wins over ",
				link.text, link.position, e.text, e.position, driver.LibCUDA)
			if why := c.outOfPlace(path.Join(e.dir, driver.LibCUDA)); why != "" {
				f.Severity = finding.Warning
				f.Message += "the package's, which on this host is right: " + why
				f.Remedy = remedy.Do("none is needed here; for hosts with an older driver, the other order: %s", remedy.Text(f.Whole()))
			} else {
				f.Message += "the newer one"
			}
			c.report(e.in(f))
		}
	}
}

// neededPaths reports the names in DT_NEEDED that are paths (_dl_map_object in elf/dl-load.c, load_library in musl's
// ldso/dynlink.c) to a place where anyone may put a file, or nothing is.
func (c *Case) neededPaths() {
	for _, name := range c.file.Needed {
		if !strings.Contains(name, "/") {
			continue
		}
		f := finding.Finding{Library: name, Remedy: c.search(name, c.Load.Main)}
		const what = "the file needs %s by a path, so no run path is searched for it: "
		switch at := name; {
		case strings.HasPrefix(at, "/"):
			why := c.leftover(path.Dir(at))
			if why == "" {
				continue
			}
			f.ID, f.Message = finding.BuildNeeded, fmt.Sprintf(what+"it is in %s", name, why)
		case runpath.TokenAt(at) != "" && c.Load.Interp.Kind == loader.GLibc:
			continue
		default:
			f.ID, f.Message = finding.RelativeNeeded, fmt.Sprintf(what+"the loader opens it relative to the working directory", name)
		}
		c.report(f)
	}
}

// heldNames returns which of the file's own names a directory holds.
func (c *Case) heldNames(e *entry) []string {
	var names []string
	if e.dir == "" {
		return nil
	}
	for n, how := range c.asks {
		if how == certain && !strings.Contains(n, "/") && c.Load.Holds(e.dir, n) {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names
}

// ignored reports whether the caller does not want to hear of a name.
func (a *System) ignored(name string) bool {
	return slices.ContainsFunc(a.Ignore, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return pattern == name || ok && err == nil
	})
}

// searched returns the entries that count for ambiguity: an empty entry and a stub directory are findings of their own.
func (c *Case) searched() (all []*entry) {
	for i := range c.entries {
		if e := &c.entries[i]; e.dir != "" && e.text != "" && !e.stub {
			all = append(all, e)
		}
	}
	return all
}

// candidate is a file that one entry offers for a name.
type candidate struct {
	entry *entry
	file  *files.File
	path  string
}

// ambiguity reports names for which two or more entries offer different files.
func (c *Case) ambiguity() {
	type group struct {
		names []string
		first []candidate
	}
	others := map[string]*group{} // names that the file does not ask for, by the directories
	for _, name := range c.sharedNames() {
		if c.ignored(name) {
			continue
		}
		var all []candidate
		for _, e := range c.searched() {
			f, _ := c.Load.In(e.dir, name)
			if f == nil || slices.ContainsFunc(all, func(x candidate) bool { return c.isSame(x.file, f) }) {
				continue
			}
			all = append(all, candidate{e, f, strings.TrimSuffix(e.dir, "/") + "/" + name})
		}
		if len(all) < 2 || c.settled(name, all) {
			continue
		}
		if c.asks[name] != 0 {
			c.report(c.ambiguous(name, all))
			continue
		}
		// A process that has the file searches for its own soname no more (_dl_map_object in elf/dl-load.c of glibc).
		if name == c.file.Soname && slices.ContainsFunc(all, func(x candidate) bool { return x.file == c.file }) {
			continue
		}
		// The loader asks for sonames; other names of the same files are for the linker.
		if !slices.ContainsFunc(all, func(x candidate) bool { return x.file.Soname == name || x.file.Soname == "" }) {
			continue
		}
		key := ""
		for _, x := range all {
			key += fmt.Sprint(x.entry.position, " ")
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
		f := c.ambiguous(g.names[0], g.first)
		f.Severity = finding.Warning
		dirs := []string{}
		for _, x := range g.first {
			dirs = append(dirs, fmt.Sprintf("%s (entry %d)", x.entry.text, x.entry.position))
		}
		if len(g.names) > 1 {
			f.Libraries = g.names
			f.Message = fmt.Sprintf(
				"%s are in each of %s, and differ; the file does not need them at present; those in %s win at run time",
				remedy.List(g.names), strings.Join(dirs, ", "), g.first[0].entry.text)
		} else {
			f.Message += "; the file does not need it at present"
		}
		c.report(f)
	}
	c.shadowing()
}

// several begins the finding of a name for which there are different files: the first wins.
func (c *Case) several(name string, all []candidate) finding.Finding {
	f := all[0].entry.in(finding.Finding{ID: finding.Ambiguous, Severity: finding.Error, Library: name})
	if e := c.asks[name]; e == guessed {
		f.Severity = finding.Warning
	} else if e < guessed {
		f.Severity = finding.Note
	}
	for i, x := range all {
		f.Candidates = append(f.Candidates, finding.Candidate{Path: x.path, Position: x.entry.position, Wins: i == 0})
	}
	return f
}

func (c *Case) ambiguous(name string, all []candidate) finding.Finding {
	f := c.several(name, all)
	var places []string
	for _, x := range all {
		place := fmt.Sprintf("%s (entry %d)", x.path, x.entry.position)
		if at := c.Loader.Inside(x.file.Path); at != x.path {
			place = fmt.Sprintf("%s (entry %d, leads to %s)", x.path, x.entry.position, at)
		}
		places = append(places, place)
	}
	winner := all[0].path
	why := ", because it is the first"
	if o := c.loads(name); o != nil && o.Found() && o.Path != winner {
		winner, why = o.Path, fmt.Sprintf(" (%s)", o.How(nil))
		for i := range f.Candidates {
			f.Candidates[i].Wins = f.Candidates[i].Path == o.Path
		}
	}
	f.Message = fmt.Sprintf("%s is ambiguous: different files are %s; at run time %s wins%s", name,
		strings.Join(places, " and "), winner, why)
	if slices.ContainsFunc(all, func(x candidate) bool { return x.entry.driver }) && driver.Provides(name) {
		var others []string
		for _, x := range all {
			if !x.entry.driver {
				others = append(others, x.entry.text)
			}
		}
		f.Remedy = c.without(others...).And(
			": %s comes with the host's driver; where the directory is a compat directory, name it with --compat", name)
		return f
	}
	// The first candidate that no other remedy takes out stays, or another one if the file does not work with it.
	stays := max(0, slices.IndexFunc(all, func(x candidate) bool { return c.remains(x.entry.key) }))
	drop := func(keep candidate) (entries []string) {
		for _, e := range c.searched() { // the same file may be in several of them
			if file, _ := c.Load.In(e.dir, name); file != nil && !c.isSame(file, keep.file) {
				entries = remedy.Union(entries, []string{e.text})
			}
		}
		return entries
	}
	f.Remedy = c.without(drop(all[stays])...)
	if stays == 0 {
		f.Remedy = f.And(", which keeps what is loaded now; or put a directory first that holds only the right %s", name)
	}
	for i, x := range all {
		if i != stays {
			f.Others = append(f.Others, c.removing(drop(x)).And(": then %s is found", x.path))
		}
	}
	return f
}

// loads returns the object for a name that the file itself asks for.
func (c *Case) loads(name string) *loader.Object {
	for _, u := range c.Load.Main.Uses {
		if u.Name == name {
			return u.To
		}
	}
	return nil
}

// settled reports whether an ambiguity is intended, or always there.
func (c *Case) settled(name string, all []candidate) bool {
	// Compat before the driver link is the order that this project makes.
	if all[0].entry.compat {
		rest := all[1:]
		if !slices.ContainsFunc(rest, func(x candidate) bool { return !x.entry.driver && !x.entry.compat }) {
			return true
		}
	}
	// The other order is a finding of its own.
	if all[0].entry.driver && !slices.ContainsFunc(all[1:], func(x candidate) bool { return !x.entry.compat }) {
		return true
	}
	// nixpkgs' glibc has a copy of libgcc_s.so.1 beside its libc.so.6, for pthread_cancel. Every program with gcc's
	// own library directory in its run path has both. They have one ABI, which only grows.
	if name == "libgcc_s.so.1" {
		rest := slices.DeleteFunc(slices.Clone(all), func(x candidate) bool { return c.Load.Holds(x.entry.dir, "libc.so.6") })
		return len(rest) < 2
	}
	return false
}

// shadowing reports a driver library in an ordinary directory before the driver
// link, which may not exist where the check runs.
func (c *Case) shadowing() {
	i := slices.IndexFunc(c.entries, func(e entry) bool { return e.driver })
	if i < 1 || c.Loader.Files().IsDir(c.entries[i].dir) {
		return // if the driver is installed, ambiguity reports it
	}
	for _, e := range c.searched() {
		if e.compat || e.position > i {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(c.asks)) {
			if c.asks[name] == certain && driver.Provides(name) && c.Load.Holds(e.dir, name) && !c.ignored(name) {
				f := on(finding.Shadowing, nil, nil,
					c.without(e.text).And("; where it is a compat directory, name it with --compat"),
					"%s comes with the host's driver, in %s (entry %d), but %s (entry %d) holds one too, comes before it and wins "+
						"at run time", name, c.entries[i].text, c.entries[i].position, e.text, e.position)
				f.Library = name
				c.report(e.in(f))
			}
		}
	}
}

// sharedNames returns the names of libraries that two or more of the file's
// directories hold.
func (c *Case) sharedNames() []string {
	var dirs []string
	for _, e := range c.searched() {
		dirs = remedy.Union(dirs, []string{e.dir})
	}
	if len(dirs) < 2 {
		return nil
	}
	key := strings.Join(dirs, "\x00")
	if v, ok := c.shared.Load(key); ok {
		return v.([]string)
	}
	held := map[string]int{} // how many of the directories hold it
	for _, dir := range dirs {
		for name := range c.Loader.Files().Names(dir) {
			if strings.Contains(name, ".so") {
				held[name]++
			}
		}
	}
	maps.DeleteFunc(held, func(_ string, n int) bool { return n < 2 })
	out := slices.Sorted(maps.Keys(held))
	c.shared.Store(key, out)
	return out
}

func (a *System) isSame(f, g *files.File) bool {
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

// brief shortens a list that is too long for a sentence.
func brief(list string) string {
	const most = 1000
	if len(list) <= most {
		return list
	}
	return list[:most] + "…"
}
