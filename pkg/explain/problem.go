package explain

import (
	"cmp"
	"debug/elf"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/nixpkgs"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/remedy/change"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/store"
)

// starts reports files that were found and stop the loader.
func (c *Case) starts() {
	s := c.Load
	if s.Role == loader.Program && s.Err == "" && s.Stops() != "" && !c.foreign() { // else that is said
		f := on(finding.NoInterpreter, nil, nil, c.newInterpreter(), "the program's loader, %s, %s", s.Interp.Path, s.Interp.Why)
		if !c.native() {
			f.Severity = finding.Note
			f.Message += "; the program is for another system"
		}
		c.report(f)
	}
	if s.Main.Err != "" {
		c.say(finding.LoadError, remedy.Do("build the file again, or restore it"), "the loader stops at the file itself: %s",
			s.Main.Err)
	}
	for _, o := range s.Objects[1:] {
		if o.Found() && o.Err != "" && o.Certain() {
			f := c.stops(o)
			c.notHere(&f)
			if o.Cause == loader.Preload || o.Cause == loader.PreloadFile || o.Cause == loader.Auxiliary {
				f.Severity, f.Message = finding.Warning, f.Message+"; the loader goes on without it"
			}
			c.report(f)
		}
	}
	if s.Err != "" && s.Role == loader.Program && !slices.ContainsFunc(s.Objects,
		func(o *loader.Object) bool { return o.Err != "" || !o.Found() || len(o.Lacks) > 0 }) {
		c.say(finding.LoadError, remedy.Do("build the libraries that it names again"), "the program does not start: %s", s.Err)
	}
}

// notHere makes a note of what is wrong only where the file is not used.
func (c *Case) notHere(f *finding.Finding) {
	if c.elsewhere() {
		f.Severity = finding.Note
		f.Message += "; the file is for another system, whose loader is not here"
	}
}

// missing reports what is not found or too old. Other files may have it, or be loaded before.
func (c *Case) missing() {
	s := c.Load
	for _, o := range s.Missing() {
		if !driver.Provides(o.Name) && !c.besideLoader(o.Name) {
			f := c.notFound(o)
			c.notHere(&f)
			c.report(f)
		}
	}
	for _, o := range s.Objects[1:] {
		for i, lack := range o.Lacks {
			if o.Certain() && (s.Interp.Found || o.List != nil) && !slices.ContainsFunc(o.Lacks[:i],
				func(l loader.Lack) bool { return l.By == lack.By }) {
				f := c.tooOld(o, lack.By)
				if s.Role != loader.Program {
					f.Severity = finding.Warning // a program may have loaded a newer one before
				}
				c.report(f)
			}
		}
	}
	for _, v := range c.Verdicts() {
		if !v.Object.Found() && v.Kind != "" {
			c.report(c.nothingThere(v))
		}
	}
	c.symbols()
	c.toolkit()
	for _, p := range c.Failed {
		if f := c.openFails(p); f != nil {
			c.report(*f)
		}
	}
}

// openFails is the finding on a failed call of dlopen, beside those on the driver and the toolkit; nil for none.
func (c *Case) openFails(p *loader.Opening) *finding.Finding {
	said := on(finding.OpenFails, p.To, p.By, remedy.Remedy{}, "")
	f := &said
	f.Library = p.Name
	v := c.Verdict(p.To)
	switch {
	case p.To.Found() && (v != nil && v.Kind != "" || c.lacksDriverAlone(p)),
		!p.To.Found() && driver.NeedsDriver(path.Base(p.Name)):
		return nil
	case p.To.Found():
		why := ""
		if f.Remedy, why = c.letOpen(p.To); why == "" || !driver.Provides(path.Base(strings.SplitN(p.Why, ",", 2)[0])) {
			why = p.Why
		}
		f.Message = fmt.Sprintf("opening %s would fail: %s", p.Name, why)
		switch {
		case p.Cause != loader.DlopenString:
		case p.Later != nil:
			f.Severity = finding.Note
			f.Message += "; where that is loaded before, it works"
		case p.To.File != nil && p.To.File.IsText(): // a linker script: the string names no library
			f.Severity = finding.Note
		case p.By != c.Main && Misses(p.To): // a JVM's launcher opens libjvm.so by a path, then libjava.so
			f.Severity = finding.Note
			f.Message += "; where that is loaded before, it works"
		}
	case p.Cause == loader.DlopenScript:
		*f = c.notFound(p.To)
		f.ID, f.Severity, f.Message = finding.OpenFails, finding.Note, fmt.Sprintf("%s, which %s opens, is not found", p.Name, p.Feature)
	case p.Cause != loader.DlopenString:
		return nil
	default:
		if at := c.Loader.Absolute(p.Name); strings.Contains(p.Name, "/") {
			_, why := c.In(path.Dir(at), path.Base(at))
			f.Severity, f.Message = finding.Note, fmt.Sprintf("opening %s would fail: %s", p.Name, why)
			f.Remedy = remedy.Do("put one there that is built like the file")
			return f
		}
		own, at, _ := c.Own(p.By, p.Name)
		if own == nil {
			return nil
		}
		f.Message = fmt.Sprintf("opening %s would fail: %s has it for %s, whose run path musl does not search for it",
			p.Name, at, c.who(p.By))
		f.Remedy = c.Edit(c.Main, add(path.Dir(at))).And(": musl searches that of the program")
	}
	if p.Sure { // the script, or the import, ends there
		f.Severity = finding.Error
	}
	return f
}

// lacksDriverAlone reports whether only the driver's libraries, which have findings of their own, keep a script's
// library from being opened.
func (c *Case) lacksDriverAlone(p *loader.Opening) bool {
	return p.Cause == loader.DlopenScript && len(p.Lacks) == 0 && Misses(p.To) &&
		!slices.ContainsFunc(brought(p.To), func(o *loader.Object) bool {
			return o.Err != "" || len(o.Lacks) > 0 || slices.ContainsFunc(o.Uses, func(u loader.Use) bool {
				return u.Cause.Certain() && !u.To.Found() && !driver.Provides(path.Base(u.Name))
			})
		})
}

// letOpen is the remedy for an open that fails, and why: that of the first library, except the driver's, that is
// missing for it.
func (c *Case) letOpen(o *loader.Object) (r remedy.Remedy, why string) {
	for _, o := range brought(o) {
		for _, u := range o.Uses {
			if !u.To.Found() && u.To.NeededBy != nil && u.Cause.Certain() && !driver.Provides(u.To.Name) {
				f := c.notFound(u.To)
				return f.Remedy, f.Message
			}
		}
	}
	return remedy.Do("see %s", remedy.Text(remedy.Quote("runpath", "explain", o.Path))), ""
}

// drivers reports what is wrong with the driver's libraries that are found.
func (c *Case) drivers() {
	for _, v := range c.Verdicts() {
		o := v.Object
		if v.Kind == "" || !o.Found() || v.Kind == finding.LoadError && o.Certain() || // the load has a finding on it
			v.Kind == finding.DriverBeforeCompat && slices.ContainsFunc(c.found, func(f finding.Finding) bool { return f.ID == v.Kind }) {
			continue
		}
		f := v.conclusion()
		if !o.Cause.Certain() {
			f.Severity = finding.Warning
		}
		c.report(f)
	}
}

// nothingThere is for a library of the driver that is not found. No build machine has one.
func (c *Case) nothingThere(v *Verdict) finding.Finding {
	f := v.conclusion()
	switch {
	case v.Kind == finding.DriverAbsent:
	case strings.Contains(v.Soname, "/"):
		f.Severity = finding.Warning
	case c.Holds(c.Link(c.file.ELF.Machine), path.Base(v.Soname)): // it is there, and not found
	case !c.ofNix():
		f.Severity = finding.Note
	case v.Object.Cause != loader.Needed:
		f.Severity = finding.Warning
	}
	return f
}

// conclusion is the finding of a verdict.
func (v *Verdict) conclusion() finding.Finding {
	f := on(v.Kind, v.Object, v.Object.NeededBy, v.Remedy, "%s", strings.TrimSuffix(v.Text, "."))
	f.Library, f.Driver, f.Optional, f.Answer = path.Base(v.Soname), true, v.Optional(), v.Answer
	return f
}

// besideLoader reports whether a library belongs to an interpreter that is not here.
func (c *Case) besideLoader(name string) bool {
	return !c.Load.Interp.Found && files.OfGLibc(name)
}

// newInterpreter is the remedy for an interpreter that does not exist: this system's own.
func (c *Case) newInterpreter() remedy.Remedy {
	const orElse = "; on NixOS, programs.nix-ld.enable = true lets such programs start as they are"
	usual := c.Load.UsualInterpreter()
	if usual == "" {
		return remedy.Do("install the loader, or name one that is here to --interpreter of runpath edit" + orElse)
	}
	r := c.Edit(c.Load.Main, &remedy.Change{Interpreter: usual})
	if store.Contains(usual) {
		return r.And(orElse)
	}
	return r.And(", or install it")
}

// operand returns an object's file as an argument of the editing tools.
func (c *Case) operand(o *loader.Object) string {
	if o == c.Load.Main {
		return c.named
	}
	return o.File.Path
}

// who names an object in a sentence.
func (c *Case) who(o *loader.Object) string {
	if o == nil || o == c.Load.Main {
		return "the file"
	}
	return o.Path
}

// stops is for a library at which the loader stops although it finds it.
func (c *Case) stops(o *loader.Object) finding.Finding {
	script, fix := "", remedy.Do("replace the file, or remove its directory from the search")
	if o.File.IsLFSPointer() {
		script, fix = ": it is a pointer of Git LFS, not the library",
			remedy.Do("fetch what it stands for with git lfs pull; of a Nix package, with fetchLFS = true of the source")
	} else if o.File.IsText() {
		script = " (what is at " + o.Path + " is text for the linker)"
	}
	if o.NeededBy != nil && c.otherLibc(o) {
		return c.mixed(o, script)
	}
	return on(finding.LoadError, o, o.NeededBy, fix, "%s is found at %s (%s), where the loader stops: %s%s", o.Name, o.Path,
		o.How(nil), o.Err, script)
}

// otherLibc reports whether a name is musl's C library, while the loader is glibc's.
func (c *Case) otherLibc(o *loader.Object) bool {
	return c.Load.Interp.Kind == loader.GLibc && files.MuslOnly(o.Name) && !o.NeededBy.File.Android()
}

// mixed is for a file built against musl that glibc's loader loads. A library alone may be for a musl program.
func (c *Case) mixed(o *loader.Object, more string) finding.Finding {
	f := on(finding.LibcMismatch, o, o.NeededBy,
		remedy.Do("build %s against glibc, or take one that is", path.Base(o.NeededBy.Path)),
		"%s needs %s, which is musl's C library%s, and is loaded by glibc's loader, %s: one process cannot have both",
		c.who(o.NeededBy), o.Name, more, cmp.Or(c.Load.Interp.Path, c.Load.Interp.Soname))
	if c.Load.Role != loader.Program {
		f.Severity, f.Message = finding.Note, f.Message+"; no program is known that loads it so"
	}
	return f
}

// notFound is the finding on a library that is not found, for the file itself or one that it loads.
func (c *Case) notFound(o *loader.Object) finding.Finding {
	s, by := c.Load, o.NeededBy
	if by == nil { // preloaded
		by = s.Main
	}
	main := s.Main
	if o.NeededBy != nil && c.otherLibc(o) {
		return c.mixed(o, "")
	}
	p := on(finding.Unresolved, o, by, remedy.Remedy{}, "%s, which %s needs, is not found", o.Name, c.who(by))
	if at, why := o.Passed(); at != "" {
		p.Message += fmt.Sprintf(" (%s %s)", at, why)
	}
	to := main
	if by != main {
		p.ID = finding.UnresolvedIndirect
	}
	if c.view { // nobody follows a trial's remedy
		return p
	}
	if by != main {
		if by.File.Tag != 0 || main.File.Tag != elf.DT_RPATH {
			to = by
		}
	}
	if dir := s.Ignored(main, o.Name); dir != "" && by == main {
		p.Message += fmt.Sprintf(": it is in %s, but the loader ignores that entry in a program with more rights than its "+
			"caller (%s)", dir, s.Secure)
		p.Remedy = c.Edit(main, add(dir)).And(": the directory itself is searched, $ORIGIN is not")
		return p
	}
	if strings.Contains(o.Name, "/") {
		p.Remedy = c.search(o.Name, by)
		return p
	}
	var ok bool
	if p.Remedy, ok = c.supply(o.Name, to); !ok {
		has := nixpkgs.Package(o.Name)
		switch file := c.File(to); {
		case file.Object != "" && has != "":
			p.Remedy = change.InPackage(file, remedy.Say(
				"add %s, which has %s, to buildInputs, and autoPatchelfHook to nativeBuildInputs", has, o.Name))
		case file.Object != "":
			p.Remedy = change.InPackage(file, remedy.Say(
				"add the package that has %s to buildInputs, and autoPatchelfHook to nativeBuildInputs", o.Name))
		case to != main:
			p.Remedy = remedy.Do("add the directory that holds it to the run path of %s, as autoPatchelf --libs DIR does",
				by.Path)
		default:
			p.Remedy = remedy.Do("add the directory that holds it to the run path, as autoPatchelf --libs DIR does")
		}
		if file := c.File(to); has != "" && file.Object == "" {
			has, _ = nixpkgs.InCUDA(has, o.Name)
			p.Remedy = p.And("; %s of nixpkgs has it", has)
		}
		if at := s.OfTheHost(o.Name); at != "" {
			p.Remedy = p.And(
				"; the host's distribution has it at %s, built against its own C library: take the package of %s that is built "+
					"like the file", at, o.Name)
		}
	}
	switch {
	case to == main:
	case by.File.Tag == elf.DT_RUNPATH && main.File.Tag == elf.DT_RPATH:
		p.Remedy = p.And(": it has a DT_RUNPATH, so the program's DT_RPATH is not searched for it")
	case main.File.Tag == elf.DT_RUNPATH:
		p.Remedy = p.And(": the program's own DT_RUNPATH is not searched for it")
	}
	return p
}

// search is the remedy of making the loader search for a library that an object names by a path, in a directory that
// has it.
func (c *Case) search(name string, by *loader.Object) remedy.Remedy {
	s, base := c.Load, path.Base(name)
	var in []string // what is to be searched, too
	if driver.Provides(base) {
		if row, _ := driver.Lookup(base); row.Soname != "" { // by which each driver has it
			base = row.Soname
		}
		if link := c.Link(by.File.ELF.Machine); !runpath.Parse(by.File.List).Has(link) {
			in = []string{link}
		}
	} else if f, _, _ := s.Own(by, base); f == nil && s.Default(base) == nil {
		dir := c.beside(base, by)
		for _, u := range by.Uses { // where it is by that name
			if at := c.absolute(u.To); u.Name == name && at != "" && path.Base(at) == base && s.Holds(path.Dir(at), base) {
				dir = path.Dir(at)
			}
		}
		if dir == "" {
			return remedy.Do(
				"build it against a library that has a soname, or put one called %s into a directory of the run path", base)
		}
		in = []string{dir}
	}
	for _, n := range by.File.Needed { // as written, with its tokens
		if n != name && strings.Contains(n, "/") && path.Base(n) == path.Base(name) {
			name = n
		}
	}
	return c.Edit(by, &remedy.Change{ReplaceNeeded: []string{name + "=" + base}, AddEntries: in}).And(": then the run path is searched for it")
}

// absolute returns the absolute path of a found library, whose name may be relative to the working directory; else
// "".
func (c *Case) absolute(o *loader.Object) string {
	if !o.Found() || strings.HasPrefix(o.Path, "/") {
		return o.Path
	}
	at, err := filepath.Abs(o.Path)
	if err != nil {
		return ""
	}
	return at
}

// near is an object's file as an argument of [Case.Provider].
func (c *Case) near(o *loader.Object) string {
	at := c.operand(o)
	if near, err := filepath.Abs(at); err == nil {
		return near
	}
	return at
}

// beside returns a directory with a library for an object, among the files that belong together and what is loaded;
// "" for none.
func (c *Case) beside(name string, to *loader.Object) string {
	s := c.Load
	if at := c.provide(name, c.near(to), func(p string) bool { return s.Holds(path.Dir(p), name) }); at != "" {
		return path.Dir(at)
	}
	for _, o := range s.Objects {
		if dir := path.Dir(o.Path); o.Found() && strings.HasPrefix(dir, "/") && s.Holds(dir, name) &&
			c.controlled(dir, c.Loader.Path(c.near(to))) {
			return dir
		}
	}
	return ""
}

// supply is the remedy of making an object find a library. ok is false if no such library is among the files that
// belong together, or beside what is loaded.
func (c *Case) supply(name string, to *loader.Object) (r remedy.Remedy, ok bool) {
	s := c.Load
	if c.provide(name, c.near(to), func(p string) bool { return s.Holds(path.Dir(p), name) }) == "" {
		// The loader opens files by their names, so a soname alone does not help.
		if at := c.provide(name, c.near(to), func(p string) bool {
			_, why := s.In(path.Dir(p), name)
			return why == "" && s.Holds(path.Dir(p), path.Base(p))
		}); at != "" {
			return change.Link(c.Layout.File(path.Dir(at)), path.Base(at),
				name).And(": the soname of %s is %s, but the loader looks for a file of that name", at, name), true
		}
	}
	if dir := c.beside(name, to); dir != "" {
		return c.Edit(to, add(dir)), true
	}
	return r, false
}

// tooOld is for a library that is found and lacks symbol versions which an object needs.
func (c *Case) tooOld(o, by *loader.Object) finding.Finding {
	s := c.Load
	var versions []string
	asserts, late := "", true
	for _, l := range o.Lacks {
		if l.By == by {
			versions, asserts, late = append(versions, l.Version), cmp.Or(asserts, l.Symbol), late && l.Late
		}
	}
	if asserts != "" {
		asserts = "; it has no symbol versions at all, and the loader ends the process where it binds " + asserts
	}
	if late { // when it is called first
		asserts += ", if that is called"
	}
	p := on(finding.MissingVersion, o, by, remedy.Do("put the directory of a newer one first, or build against this one"),
		"%s (%s) does not define %s, which %s needs%s", o.Path, o.How(nil), strings.Join(versions, ", "), c.who(by), asserts)
	if late {
		p.Severity = finding.Warning
	}
	if files.OfGLibc(o.Name) { // it belongs to its loader
		p.Remedy = remedy.Do(
			"build against this glibc, or start the program with a newer glibc's loader: a %s of another glibc than the "+
				"loader's does not work", o.Name)
	}
	if s.Interp.Kind != loader.GLibc || o.List == nil || o.List.File == nil || !o.Rule.InRunPath() {
		return p
	}
	// A newer one is found if the entry that led to this one goes, or moves behind the newer one's.
	list := runpath.Parse(o.List.File.List)
	words := p.Remedy
	p.Remedy = c.Edit(o.List, &remedy.Change{RemoveEntries: []string{o.Entry}})
	if d := s.Default(o.Name); d != nil && !slices.ContainsFunc(versions, func(v string) bool { return !d.Defines(v) }) {
		p.Remedy = p.And(": then %s is found, which defines it", d.Path)
	}
	for _, entry := range list[slices.Index(list, o.Entry)+1:] {
		if dir, ok := s.Expand(o.List, entry); ok && entry != "" && s.Holds(dir, o.Name) {
			p.Others = append(p.Others, c.Edit(o.List, &remedy.Change{ReplaceEntries: []string{
				o.Entry + "=" + entry + ":" + o.Entry}}).And(": then %s is found", path.Join(dir, o.Name)))
		}
	}
	p.Others = append(p.Others, words)
	return p
}
