package audit

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/store"
)

// all reports everything but what depends on the other files of the audit.
func (s *subject) all() {
	s.safety()
	s.directories()
	s.ambiguity()
	s.byProcessor()
	s.loadedElsewhere()
	s.libraries()
	s.interpreter()
	s.stack()
	s.gpuCode()
	if s.file.Shadow {
		s.report(Finding{ID: ShadowedRPath,
			Message: fmt.Sprintf("the file has a DT_RPATH, %q, beside its DT_RUNPATH; the loader ignores it", s.file.RPath),
			Remedy:  s.normalize().And(" leaves DT_RUNPATH alone")})
	}
	s.duplicates()
}

// duplicates reports each directory that is more than once in the run path, at its last entry.
func (s *subject) duplicates() {
	last := map[string]int{} // by key
	var again []string       // in the order in which they come again
	for i, e := range s.entries {
		if e.text == "" {
			continue
		}
		if _, known := last[e.key]; known && !slices.Contains(again, e.key) {
			again = append(again, e.key)
		}
		last[e.key] = i
	}
	for _, key := range again {
		e := s.entries[last[key]]
		s.report(e.in(Finding{ID: DuplicateEntry,
			Message: fmt.Sprintf("entry %d, %s, names a directory that an earlier entry names", e.position, e.text),
			Remedy:  s.normalize("--dedupe").And(" keeps the first")}))
	}
}

// directories looks at each entry for itself.
func (s *subject) directories() {
	for i := range s.entries {
		e := &s.entries[i]
		if e.text == "" || e.stub {
			continue
		}
		fix := s.without(e.text)
		if s.mangled(e) {
			continue
		}
		if token := unknownToken(e.text); token != "" && s.load.Interp != nil && s.load.Interp.Kind == loader.GLibc && (e.text[0] == '$' || !s.Loader.Files().IsDir(e.dir)) {
			s.report(e.in(Finding{ID: UnknownToken,
				Message: fmt.Sprintf("entry %d, %s, has %s, which the loader does not know: it takes it for a part of a file name", e.position, e.text, token),
				Remedy:  fix}))
			continue
		}
		if !strings.HasPrefix(e.text, "/") && !strings.HasPrefix(e.text, "$ORIGIN") && !strings.HasPrefix(e.text, "${ORIGIN}") {
			s.report(e.in(Finding{ID: RelativeEntry,
				Message: fmt.Sprintf("entry %d, %s, is relative: it is searched below the working directory", e.position, e.text),
				Remedy:  s.replace(e, "$ORIGIN/"+strings.TrimPrefix(e.text, "./")).And(" if it was meant to be relative to the file")}))
			continue
		}
		if e.dir == "" || e.driver {
			continue
		}
		if why := s.leftover(e.text); why != "" {
			s.report(e.in(Finding{ID: BuildEntry, Message: fmt.Sprintf("entry %d, %s, is %s", e.position, e.text, why), Remedy: fix}))
			continue
		}
		files := s.Loader.Files()
		host, _, err := files.Resolve(e.dir)
		there := err == nil && files.IsDir(e.dir)
		if where, how := s.writable(e.dir, host, there); where != "" {
			s.report(e.in(Finding{ID: WritableEntry, Message: fmt.Sprintf("entry %d, %s: %s", e.position, e.text, fmt.Sprintf(how, where)),
				Remedy: fix.And("; or take the write permission off the directory")}))
		}
		if s.inStore && strings.HasPrefix(e.text, "/") && isFHS(e.key) {
			s.report(e.in(Finding{ID: FHSEntry,
				Message: fmt.Sprintf("entry %d, %s, is a directory of the host's distribution, in a file built by Nix", e.position, e.text),
				Remedy:  fix.And("; add the package that brings the libraries to buildInputs")}))
		}
		switch {
		case !there && err == nil:
			s.report(e.in(Finding{ID: DanglingEntry, Message: fmt.Sprintf("entry %d, %s, is a file, not a directory", e.position, e.text), Remedy: fix}))
		case !there && !errors.Is(err, syscall.EACCES):
			s.report(e.in(Finding{ID: DanglingEntry, Message: fmt.Sprintf("entry %d, %s, does not exist", e.position, e.text), Remedy: fix.And(", unless it is made at run time")}))
		case there && !e.compat && s.Loader.Inside(host) != path.Dir(s.at) && !s.holdsAny(e):
			s.unused(e, host, fix)
		}
		s.keptReference(e, fix)
	}
}

// newInterpreter is the remedy for an interpreter that does not exist: the machine's usual one.
func (s *subject) newInterpreter() remedy.Remedy {
	usual := s.Loader.UsualInterpreter(s.file)
	if _, _, err := s.Loader.Files().Resolve(usual); err != nil {
		return remedy.Do("install it, or set another with runpath interpreter set")
	}
	return s.command("runpath", "interpreter", "set", usual).And(", or install it")
}

// unknownToken returns the first $NAME of an entry that is not a token of the loader, or "".
func unknownToken(entry string) string {
	for i := 0; i < len(entry); i++ {
		if entry[i] != '$' || loader.TokenAt(entry[i:]) != "" {
			continue
		}
		j := i + 1
		for j < len(entry) && entry[j] != '/' && entry[j] != '$' {
			j++
		}
		return entry[i:j]
	}
	return ""
}

// workspaces are where root, and the runners of GitHub, GitLab, Jenkins and conda-build, build.
var workspaces = []string{"/root", "/workspace", "/workspaces", "/github/workspace", "/github/home", "/__w", "/builds", "/var/lib/jenkins", "/var/jenkins_home", "/croot", "/opt/conda/conda-bld"}

// leftover tells directories that only the build, or one user, had.
func (s *subject) leftover(text string) string {
	under := func(dir string) bool { return text == dir || strings.HasPrefix(text, dir+"/") }
	switch {
	case under("/build"), under("/homeless-shelter"), under("/nix/var/nix/builds"), under("/private/tmp"):
		return "a directory of the Nix build sandbox, left over"
	case under("/tmp"), under("/var/tmp"):
		if under("/tmp") && strings.HasPrefix(s.at, "/tmp/") || strings.HasPrefix(s.at, "/var/tmp/") && under("/var/tmp") {
			return "" // the file itself is only there for the time being
		}
		return "a temporary directory, left over from the build; anyone can create it"
	}
	for _, home := range []string{"/home/", "/Users/"} {
		if rest, ok := strings.CutPrefix(text, home); ok {
			user, _, _ := strings.Cut(rest, "/")
			if !strings.HasPrefix(s.at, home+user+"/") {
				return "a user's home directory, left over from the build"
			}
		}
	}
	for _, dir := range workspaces {
		if under(dir) && !strings.HasPrefix(s.at, dir+"/") {
			return "a directory in which only builds run, left over"
		}
	}
	return ""
}

func isFHS(key string) bool {
	for _, dir := range []string{"/usr", "/lib", "/lib32", "/lib64", "/opt"} {
		if key == dir || strings.HasPrefix(key, dir+"/") {
			return true
		}
	}
	return false
}

// writable looks for a directory on the way that anyone can write to: the
// directory itself, or the one in which a missing one could be created.
func (s *subject) writable(dir, host string, there bool) (where, how string) {
	if there {
		inside := s.Loader.Inside(host)
		for d := inside; d != "/" && d != "."; d = path.Dir(d) {
			st, err := os.Stat(s.Loader.Host(d))
			if err != nil || st.Mode().Perm()&0o002 == 0 || st.Mode()&os.ModeSticky != 0 && d != inside {
				continue
			}
			return d, "anyone can write to %s"
		}
		return "", ""
	}
	for d := path.Dir(dir); d != "/" && d != "."; d = path.Dir(d) {
		at, _, err := s.Loader.Files().Resolve(d)
		if err != nil {
			continue
		}
		if st, err := os.Stat(at); err == nil && st.Mode().Perm()&0o002 != 0 {
			return d, "it does not exist, and anyone can create it in %s"
		}
		return "", ""
	}
	return "", ""
}

// holdsAny reports whether a directory holds anything that the loader looks for there.
func (s *subject) holdsAny(e *entry) bool {
	names := s.Loader.Files().Names(e.dir)
	if names == nil {
		return true // it cannot be read, so who knows
	}
	for _, set := range []map[string]bool{s.own, s.maybe} {
		for n := range set {
			if names[n] {
				return true
			}
		}
	}
	// Libraries of hardware subdirectories count; so do plugins that a program
	// finds by listing directories of its own, which nobody can tell.
	return names["glibc-hwcaps"]
}

func (s *subject) unused(e *entry, host string, fix remedy.Remedy) {
	msg := fmt.Sprintf("entry %d, %s, holds nothing that the file asks for", e.position, e.text)
	own, ref := store.Path(s.at), store.Path(s.Loader.Inside(host))
	if ref != "" && ref != own {
		msg += ", and keeps " + ref + " alive"
		if own != "" && s.Loader.Files().IsDir("/nix/store") {
			if bytes, ok := s.closures.saved(own, ref); ok {
				msg += fmt.Sprintf("; without it the closure of %s would be %s smaller, if nothing else in it refers there", path.Base(own), size(bytes))
			}
		}
	}
	s.report(e.in(Finding{ID: UnusedEntry, Message: msg, Remedy: fix.And("; libraries opened by a name that is computed at run time are not seen here")}))
}

func (s *subject) keptReference(e *entry, fix remedy.Remedy) {
	object := store.Path(e.key)
	if object == "" || object == store.Path(s.at) {
		return
	}
	hash, name := store.Split(object)
	if !buildTools().MatchString(name) || s.holdsAny(e) && !strings.HasSuffix(name, "-stubs") {
		return
	}
	if s.refersElsewhere(s.file.Path, hash, s.file.List) {
		return
	}
	s.report(e.in(Finding{ID: KeptReference,
		Message: fmt.Sprintf("entry %d, %s, is the only reference in this file to %s, which is needed only to build", e.position, e.text, object),
		Remedy:  fix}))
}

// libraries looks at what is loaded.
func (s *subject) libraries() {
	if why := s.load.Err; why != "" && s.isProgram() && !slices.ContainsFunc(s.load.Objects, func(o *loader.Object) bool { return o.Err != "" || !o.Found() || len(o.Lacks) > 0 }) {
		s.report(Finding{ID: LoadError, Message: "the program does not start: " + why, Remedy: remedy.Do("build the libraries that it names again")})
	}
	if err := s.load.Main.Err; err != "" {
		s.report(Finding{ID: LoadError, Message: "the loader stops at the file itself: " + err, Remedy: remedy.Do("build the file again, or restore it")})
	}
	for _, o := range s.load.Objects[1:] {
		if !o.Found() {
			continue
		}
		if o.Err != "" {
			script := ""
			if o.File.IsText() {
				script = " (what is at " + o.Path + " is text for the linker)"
			}
			if o.NeededBy != nil && s.otherLibc(o.Name, script, o.NeededBy) {
				continue
			}
			s.report(Finding{ID: LoadError, Library: o.Name,
				Message: fmt.Sprintf("%s is found at %s (%s), where the loader stops: %s%s", o.Name, o.Path, o.How(nil), o.Err, script),
				Remedy:  remedy.Do("replace the file, or take its directory off the search")})
			continue
		}
		s.stub(o)
		s.compat(o)
	}
	for _, u := range s.load.Main.Uses {
		if u.Again {
			continue
		}
		for _, t := range u.To.Tried {
			if t.List != s.load.Main || !t.Alien {
				continue
			}
			s.report(Finding{ID: WrongMachine, Library: u.Name, Entry: &t.Entry,
				Message: fmt.Sprintf("%s, in the run path, is passed over for %s: %s", t.Path, u.Name, t.Why),
				Remedy:  s.without(t.Entry)})
		}
	}
	s.libc()
}

// stub reports a stub that is loaded, or may be by dlopen.
func (s *subject) stub(o *loader.Object) {
	if !o.Found() || !driver.Provides(path.Base(o.Name)) || !s.StubDirs.Contains(path.Dir(o.Path)) {
		return
	}
	f := Finding{ID: StubLoaded, Library: o.Name,
		Message: fmt.Sprintf("%s is loaded from %s, a stub (%s)", o.Name, o.Path, o.How(nil)),
		Remedy:  s.replaceLoadedStub(o)}
	if !o.Cause.Certain() {
		f.Severity = Warning
	}
	s.report(f)
}

func (s *subject) interpreter() {
	in := s.file.Interp
	if in == "" || !s.isProgram() {
		return
	}
	if store.Contains(s.at) && !store.Contains(in) {
		s.report(Finding{ID: FHSInterpreter, Message: fmt.Sprintf("the program asks for the loader %s, which is not Nix's", in),
			Remedy: remedy.Do("add autoPatchelfHook to nativeBuildInputs")})
		return
	}
	if _, _, err := s.Loader.Files().Resolve(in); err != nil {
		f := Finding{ID: NoInterpreter, Message: fmt.Sprintf("the program's loader, %s, does not exist", in), Remedy: s.newInterpreter()}
		if !s.native() {
			f.Severity = Note
			f.Message += "; the program is for another system"
		}
		s.report(f)
	}
}

func (s *subject) isProgram() bool {
	return s.file.Interp != "" && (s.file.Soname == "" || s.file.ELF.Type == elf.ET_EXEC)
}

func (s *subject) native() bool {
	if os := s.file.ELF.OSABI; os != elf.ELFOSABI_NONE && os != elf.ELFOSABI_LINUX {
		return false
	}
	switch m := s.file.ELF.Machine; runtime.GOARCH {
	case "amd64":
		return m == elf.EM_X86_64 || m == elf.EM_386
	case "arm64":
		return m == elf.EM_AARCH64
	}
	return true
}

// missing is a name that a file asks for and for which nothing was found, or no file
// with the symbol versions that are needed of it.
type missing struct {
	name  string
	by    *loader.Object
	cause loader.Cause
	lacks *loader.Object // the file that was found; nil where there is none

	object *loader.Object // the name that was not found
}

// passed says what is wrong with a file of the name that is there.
func passed(o *loader.Object) string {
	at, why := o.Passed()
	if at == "" {
		return ""
	}
	return fmt.Sprintf(" (%s %s)", at, why)
}

// missingNames returns what the load lacks, followed by the driver's libraries
// that the file may open and would not find.
func (s *subject) missingNames() []missing {
	var out []missing
	for _, o := range s.load.Missing() {
		out = append(out, missing{o.Name, o.NeededBy, o.Cause, nil, o})
	}
	for _, o := range s.load.Objects {
		if !o.Found() && !o.Cause.Certain() && o.NeededBy == s.load.Main && driver.Provides(path.Base(o.Name)) &&
			!slices.ContainsFunc(out, func(m missing) bool { return m.name == o.Name }) {
			out = append(out, missing{o.Name, o.NeededBy, o.Cause, nil, o})
		}
	}
	for _, o := range s.load.Objects[1:] {
		for i, lack := range o.Lacks {
			if o.Certain() && !slices.ContainsFunc(o.Lacks[:i], func(l loader.Lack) bool { return l.By == lack.By }) {
				out = append(out, missing{o.Name, lack.By, loader.Needed, o, nil})
			}
		}
	}
	return out
}

// knowledge is what the audit has learnt from all its files together.
type knowledge struct {
	mu sync.Mutex
	// satisfied are the requests (file, name) that were met in some load.
	satisfied map[[2]string]bool
	// provides are the absolute paths of the examined files by soname and by file name.
	provides map[string][]string
	examined map[string]bool // by the path on this machine
	// loaders are the files in whose loads a name was found: a program wherever there is one.
	loaders map[string]opener
	// opens are the files that have a name among their strings, at most two of each.
	opens map[string][]string
}

// request identifies an object's wish for a library: by its file, and by where that was found
// where its run path depends on it.
func (s *subject) request(o *loader.Object, name string) [2]string {
	file := o.File.Path
	if strings.Contains(o.File.List, "ORIGIN") {
		dir, _ := s.load.Expand(o, "$ORIGIN")
		if host, _, err := s.Loader.Files().Resolve(dir); err == nil {
			file += "\x00" + host
		}
	}
	return [2]string{file, name}
}

// opener is a file that loads others.
type opener struct {
	path    string
	file    *loader.File
	program bool
}

func newKnowledge() *knowledge {
	return &knowledge{satisfied: map[[2]string]bool{}, provides: map[string][]string{}, examined: map[string]bool{}, loaders: map[string]opener{}, opens: map[string][]string{}}
}

// learn remembers what the load of a file shows.
func (c *knowledge) learn(of *subject) {
	c.mu.Lock()
	defer c.mu.Unlock()
	main, who := of.load.Main.File, opener{of.path, of.file, of.isProgram()}
	c.examined[main.Path] = true
	at := of.path
	if abs, err := filepath.Abs(at); err == nil {
		at = abs // as it was named on the command line, it would be relative to any working directory
	}
	for _, name := range []string{main.Soname, path.Base(at)} {
		if name != "" && !slices.Contains(c.provides[name], at) {
			c.provides[name] = append(c.provides[name], at)
		}
	}
	for _, l := range main.Literals() {
		name := path.Base(l.Name)
		if by := c.opens[name]; len(by) < 2 && !slices.Contains(by, main.Path) {
			c.opens[name] = append(by, main.Path)
		}
	}
	for _, o := range of.load.Objects {
		if o.File == nil {
			continue
		}
		for _, u := range o.Uses {
			if !u.To.Found() || slices.ContainsFunc(u.To.Lacks, func(l loader.Lack) bool { return l.By == o }) {
				continue
			}
			if o != of.load.Main {
				c.satisfied[of.request(o, u.Name)] = true
			}
			if !c.loaders[u.Name].program {
				c.loaders[u.Name] = who
			}
		}
	}
}

// before says what may have loaded a library of a name before a file that needs it and does
// not find it, and how bad it is to rely on that: an error where nothing is known to.
func (c *knowledge) before(name string, file *loader.File, load *loader.Load) (who string, s Severity) {
	by, ok := c.loaders[name]
	if ok && by.program {
		return fmt.Sprintf("; it works where it was loaded before, as %s does", by.path), Note
	}
	if others := slices.DeleteFunc(slices.Clone(c.opens[name]), func(p string) bool { return p == file.Path }); len(others) > 0 {
		return fmt.Sprintf("; it works where it was loaded before, as %s may do, which has that name among its strings", others[0]), Note
	}
	// What the file itself loads is not there before it.
	if ok && !slices.ContainsFunc(load.Objects, func(o *loader.Object) bool { return o.File == by.file }) {
		return fmt.Sprintf("; it works only where it was loaded before, by %s", by.path), Warning
	}
	return "", Error
}

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

// supply is the remedy of letting a file of this machine, which is of the load, find a
// library; ok is false where no such library is in the audit, or beside what is loaded.
func (s *subject) supply(c *knowledge, name string, to *loader.Object) (r remedy.Remedy, ok bool) {
	operand := s.operand()
	if to != s.load.Main {
		operand = to.File.Path
	}
	near, err := filepath.Abs(operand)
	if err != nil {
		near = operand
	}
	if at := c.provider(name, near, func(p string) bool { return s.holds(path.Dir(p), name) }); at != "" {
		return remedy.Run("runpath", "add", path.Dir(at), operand), true
	}
	// The loader opens files by their names: a soname alone does not help.
	at := c.provider(name, near, func(p string) bool {
		_, why := s.load.In(path.Dir(p), name)
		return why == "" && s.holds(path.Dir(p), path.Base(p))
	})
	if at == "" {
		for _, o := range s.load.Objects {
			if dir := path.Dir(o.Path); o.Found() && strings.HasPrefix(dir, "/") && s.holds(dir, name) {
				return remedy.Run("runpath", "add", dir, operand), true
			}
		}
		return r, false
	}
	return remedy.Run("ln", "-s", path.Base(at), path.Dir(at)+"/"+name).And(fmt.Sprintf(": the soname of %s is %s, but the loader looks for a file of that name", at, name)), true
}

// unresolved reports what is missing, once all files have been seen.
func (s *subject) unresolved(names []missing, c *knowledge) {
	link := s.DriverLink
	if link == "" {
		link = driver.LinkFor(s.file.ELF.Machine)
	}
	hasLink := slices.ContainsFunc(s.entries, func(e entry) bool { return e.driver })
	indirect := map[string]bool{}
	for _, m := range names {
		direct := m.by == s.load.Main
		switch {
		case m.lacks != nil:
			if s.load.Interp.Found && (direct || s.isProgram()) && !c.satisfied[s.request(m.by, m.name)] {
				s.tooOld(m)
			}
		case direct && driver.Provides(path.Base(m.name)) && (m.cause != loader.Needed || driver.Provides(m.name)):
			s.driverMissing(m, link, hasLink)
		case driver.Provides(m.name), !m.cause.Certain():
			// It is the other file's to find, and reported there.
		case s.load.Interp != nil && !s.load.Interp.Found && (!s.load.Interp.Store || slices.Contains(loader.GLibcLibraries, m.name)):
			// Its machine's libraries, or those beside it, are not here either.
		case c.satisfied[s.request(m.by, m.name)]:
			// A program loads this library and what it needs: it is never loaded alone.
		case direct:
			if s.load.Interp.Store && !s.isProgram() && m.name == "libc.so.6" {
				continue // a library without a run path takes its program's
			}
			s.notFound(m, c)
		case (s.isProgram() || !c.examined[m.by.File.Path]) && !indirect[m.name]:
			indirect[m.name] = true
			s.notFound(m, c)
		}
	}
}

// notFound reports a library that is not found for the file itself, or for one that it loads.
func (s *subject) notFound(m missing, c *knowledge) {
	main := s.load.Main
	if s.otherLibc(m.name, "", m.by) {
		return
	}
	f := Finding{ID: Unresolved, Library: m.name, Message: fmt.Sprintf("%s, which the file needs, is not found%s", m.name, passed(m.object))}
	to := main
	if m.by != main {
		f.ID, f.Message = UnresolvedIndirect, fmt.Sprintf("%s, which %s needs, is not found%s", m.name, m.by.Path, passed(m.object))
		if m.by.File.Tag != 0 || main.File.Tag != elf.DT_RPATH {
			to = m.by
		}
	}
	if !s.isProgram() {
		who, severity := c.before(m.name, m.by.File, s.load)
		f.Message, f.Severity = f.Message+who, severity
	}
	if dir := s.load.Ignored(main, m.name); dir != "" && m.by == main {
		f.Message += fmt.Sprintf(": it is in %s, but the loader ignores that entry in a program with more rights than its caller (%s)", dir, s.load.SecureWhy)
		f.Remedy = s.add(dir + "/" + m.name).And(": the directory itself is searched, $ORIGIN is not")
		s.report(f)
		return
	}
	if strings.Contains(m.name, "/") {
		if f.Remedy = s.search(m.name, m.by); !slices.ContainsFunc(s.found, func(g Finding) bool { return g.Library == m.name && (g.ID == RelativeNeeded || g.ID == BuildNeeded) }) {
			s.report(f)
		}
		return
	}
	var ok bool
	if f.Remedy, ok = s.supply(c, m.name, to); !ok {
		f.Remedy = remedy.Do("add the directory that holds it to the run path")
		if to != main {
			f.Remedy = remedy.Do("add the directory that holds it to the run path of " + m.by.Path)
		}
	}
	switch {
	case to == main:
	case m.by.File.Tag == elf.DT_RUNPATH && main.File.Tag == elf.DT_RPATH:
		f.Remedy = f.Remedy.And(": it has a DT_RUNPATH, so the program's DT_RPATH is not searched for it")
	case main.File.Tag == elf.DT_RUNPATH:
		f.Remedy = f.Remedy.And(": the program's own DT_RUNPATH is not searched for it")
	}
	s.report(f)
}

// onlyHere reports whether a library was found through an entry of the file's own run path,
// and no other was.
func (s *subject) onlyHere(o *loader.Object) bool {
	return o.List == s.load.Main && o.Rule.InRunPath() && !slices.ContainsFunc(s.load.Objects, func(x *loader.Object) bool {
		return x != o && x.Found() && x.List == o.List && x.Entry == o.Entry
	})
}

// tooOld: a library is found that lacks symbol versions.
func (s *subject) tooOld(m missing) {
	var versions []string
	for _, l := range m.lacks.Lacks {
		if l.By == m.by {
			versions = append(versions, l.Version)
		}
	}
	who := "the file"
	if m.by != s.load.Main {
		who = m.by.Path
	}
	f := Finding{ID: MissingVersion, Library: m.name,
		Message: fmt.Sprintf("%s (%s) does not define %s, which %s needs", m.lacks.Path, m.lacks.How(nil), strings.Join(versions, ", "), who),
		Remedy:  remedy.Do("put the directory of a newer one first, or build against this one")}
	if d := s.load.Default(m.name); d != nil && !slices.ContainsFunc(versions, func(v string) bool { return !d.Defines(v) }) && s.onlyHere(m.lacks) {
		f.Remedy = remedy.Run("runpath", "edit", "--remove-entry", m.lacks.Entry, s.operand()).And(fmt.Sprintf(": then %s is found, which defines it", d.Path))
	}
	if !s.isProgram() {
		f.Severity = Warning // a program may have loaded a newer one before
	}
	s.report(f)
}

// driverMissing: a library of the driver, which no build machine has.
func (s *subject) driverMissing(m missing, link string, hasLink bool) {
	how := "needs"
	switch m.cause {
	case loader.DlopenNote:
		how = "may open (.note.dlopen)"
	case loader.DlopenString:
		how = "may open (its name is a string literal in read-only data)"
	}
	if strings.Contains(m.name, "/") {
		s.report(Finding{ID: NoDriverLink, Library: path.Base(m.name), Severity: Warning,
			Message: fmt.Sprintf("%s, which the file %s, is a path at which there is nothing; %s comes with the host's driver, on NixOS in %s", m.name, how, path.Base(m.name), link),
			Remedy:  m.object.ByName().And("; then autoAddDriverRunpath lets it be found")})
		return
	}
	if hasLink {
		s.report(Finding{ID: DriverAbsent, Library: m.name,
			Message: fmt.Sprintf("%s, which the file %s, is not at the driver link %s on this machine", m.name, how, link),
			Remedy:  remedy.Do("none is needed on a build machine; --assume-driver DIR shows what a host with a driver would load")})
		return
	}
	f := Finding{ID: NoDriverLink, Library: m.name,
		Message: fmt.Sprintf("%s, which the file %s, comes with the host's driver, and the driver link %s is not in the run path", m.name, how, link),
		Remedy:  s.edit("autoAddDriverRunpath")}
	switch {
	case !s.inStore:
		f.Severity = Note
		f.Message += "; it is found where the driver is in the default directories, so not on NixOS"
	case m.cause != loader.Needed:
		f.Severity = Warning
	}
	s.report(f)
}

// compat reports a compat package's libcuda.so.1 that harms beside the driver of this
// host, where one is known.
func (s *subject) compat(o *loader.Object) {
	dir := path.Dir(o.Path)
	holds := func(name string) bool { f, _ := s.load.In(dir, name); return f != nil }
	if o.Name != driver.LibCUDA || s.CompatVerdict == nil || o.File == nil || !(driver.CompatDirs{Named: s.Compat}).Contains(dir, holds) {
		return
	}
	v, ok := s.CompatVerdict(o.File.Path)
	if !ok || v.Help != driver.Harms {
		return
	}
	fix := o.OffTheSearch(func(file string) remedy.Remedy {
		return remedy.Run("runpath", "edit", "--remove-entry", o.Entry, file).And(", where it is to run here only")
	}).And("; or start the program with hostDriver run")
	s.report(Finding{ID: CompatHarms, Library: o.Name,
		Message: fmt.Sprintf("%s is loaded from the compat directory %s (%s), which harms here: %s (%s)", o.Name, dir, o.How(nil), v.Reason, v.Source),
		Remedy:  fix})
}
