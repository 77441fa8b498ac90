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
	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/references"
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
	s.stack()
	switch {
	case s.file.Editing:
		s.report(Finding{ID: StoppedEdit, Message: "the file is being edited by these tools: it loads, but is not finished yet"})
	case s.file.Stopped:
		s.report(Finding{ID: StoppedEdit,
			Message: "an edit of the file by these tools was stopped in its middle: it loads, but is not finished",
			Remedy:  s.normalize().And(" finishes it, as any edit does; then make the edit that was stopped again, unless the run path is the new one")})
	}
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
		s.of(&s.entries[last[key]], DuplicateEntry, s.normalize("--dedupe").And(" keeps the first"), "names a directory that an earlier entry names")
	}
}

// directories reports what is wrong with each entry by itself.
func (s *subject) directories() {
	for i := range s.entries {
		e := &s.entries[i]
		if e.text == "" || e.stub {
			continue
		}
		fix := func() remedy.Remedy { return s.without(e.text) }
		if s.mangled(e) {
			continue
		}
		if token := unknownToken(e.text); token != "" && s.load.Interp != nil && s.load.Interp.Kind == loader.GLibc && (e.text[0] == '$' || !s.Loader.Files().IsDir(e.dir)) {
			s.of(e, UnknownToken, fix(), "has %s, which the loader does not know: it takes it for a part of a file name", token)
			continue
		}
		if !strings.HasPrefix(e.text, "/") && !strings.HasPrefix(e.text, "$ORIGIN") && !strings.HasPrefix(e.text, "${ORIGIN}") {
			s.of(e, RelativeEntry, s.replace(e, "$ORIGIN/"+strings.TrimPrefix(e.text, "./")), "is relative: it is searched below the working directory")
			continue
		}
		if e.dir == "" || e.driver {
			continue
		}
		if why := s.leftover(e.text); why != "" {
			s.of(e, BuildEntry, fix(), "is %s", why)
			continue
		}
		files := s.Loader.Files()
		host, _, err := files.Resolve(e.dir)
		there := err == nil && files.IsDir(e.dir)
		if where, how := s.writable(e.dir, host, there); where != "" {
			s.report(e.in(Finding{ID: WritableEntry, Message: fmt.Sprintf("entry %d, %s: %s", e.position, e.text, fmt.Sprintf(how, where)),
				Remedy: fix().And("; or take the write permission off the directory")}))
		}
		if s.its.OfNix() && strings.HasPrefix(e.text, "/") && isFHS(e.key) {
			s.of(e, FHSEntry, fix().And("; add the package that brings the libraries to buildInputs"), "is a directory of the host's distribution, in a file built by Nix")
		}
		switch {
		case !there && err == nil:
			s.of(e, DanglingEntry, fix(), "is a file, not a directory")
		case !there && !errors.Is(err, syscall.EACCES):
			s.of(e, DanglingEntry, fix().And(", unless it is made at run time"), "does not exist")
		case there && !e.compat && s.Loader.Inside(host) != path.Dir(s.at) && !s.holdsAny(e):
			s.unused(e, host, fix)
		}
		s.keptReference(e, fix)
	}
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

// builds are the directories that only the build, or one user, had, and what they are. Not for files below the same
// one: they are there for the time being, or that user's.
var builds = []struct {
	dirs []string
	what string
	own  bool // also for files below it
}{
	{[]string{"/build", "/homeless-shelter", "/nix/var/nix/builds", "/private/tmp"}, "a directory of the Nix build sandbox, left over", true},
	{[]string{"/tmp", "/var/tmp"}, "a temporary directory, left over from the build; anyone can create it", false},
	// Where root, and the runners of GitHub, GitLab, Jenkins and conda-build, build.
	{[]string{"/root", "/workspace", "/workspaces", "/github/workspace", "/github/home", "/__w", "/builds", "/var/lib/jenkins", "/var/jenkins_home", "/croot", "/opt/conda/conda-bld"},
		"a directory in which only builds run, left over", false},
}

// leftover says what kind of directory an entry names that only the build, or one user, had; "" for any other.
func (s *subject) leftover(text string) string {
	for _, b := range builds {
		for _, dir := range b.dirs {
			if isBelow(text, dir) && (b.own || !strings.HasPrefix(s.at, dir+"/")) {
				return b.what
			}
		}
	}
	for _, home := range []string{"/home/", "/Users/"} {
		if rest, ok := strings.CutPrefix(text, home); ok {
			user, _, _ := strings.Cut(rest, "/")
			if !strings.HasPrefix(s.at, home+user+"/") {
				return "a user's home directory, left over from the build"
			}
		}
	}
	return ""
}

func isFHS(key string) bool {
	return slices.ContainsFunc([]string{"/usr", "/lib", "/lib32", "/lib64", "/opt"}, func(dir string) bool { return isBelow(key, dir) })
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
	// finds by listing directories of its own, which the file does not say.
	return names["glibc-hwcaps"]
}

func (s *subject) unused(e *entry, host string, fix func() remedy.Remedy) {
	more := ""
	own, ref := store.Path(s.at), store.Path(s.Loader.Inside(host))
	if ref != "" && ref != own {
		more = ", and keeps " + ref + " alive"
		if own != "" && s.Loader.Files().IsDir("/nix/store") {
			if bytes, ok := s.saved(own, ref); ok {
				more += fmt.Sprintf("; without it the closure of %s would be %s smaller, if nothing else in it refers there", path.Base(own), size(bytes))
			}
		}
	}
	s.of(e, UnusedEntry, fix().And("; libraries opened by a name that is computed at run time are not seen here"), "holds nothing that the file asks for%s", more)
}

func (s *subject) keptReference(e *entry, fix func() remedy.Remedy) {
	object := store.Path(e.key)
	if object == "" || object == store.Path(s.at) {
		return
	}
	name := store.Name(object)
	if !buildTools().MatchString(name) || s.holdsAny(e) && !strings.HasSuffix(name, "-stubs") || namedBeside(s.file.Path, object, references.RunPath) {
		return
	}
	s.of(e, KeptReference, fix(), "is the only reference in this file to %s, which is needed only to build", object)
}

// noted returns the store paths that the file's resolution note names, and nothing else of it.
func (s *subject) noted() (named []string) {
	for _, e := range s.file.Note {
		for _, p := range e.Places {
			object := store.Path(strings.TrimLeft(string(p), "=?"))
			if object != "" && object != store.Path(s.at) && !slices.Contains(named, object) && !strings.Contains(s.file.List, object) &&
				!namedBeside(s.file.Path, object, references.ResolutionNote) {
				named = append(named, object)
			}
		}
	}
	return named
}

// libraries reports what is wrong with the libraries that are loaded.
func (s *subject) libraries() {
	foreign := store.Contains(s.at) && !store.Contains(s.file.Interp) // reported as FHSInterpreter
	for _, p := range s.its.Problems() {
		switch f := Concluded(p); {
		case open(p), p.Kind == explain.NoInterpreter && foreign:
		case p.Kind == explain.NoInterpreter && !s.native():
			f.Severity = Note
			f.Message += "; the program is for another system"
			fallthrough
		default:
			s.report(f)
		}
	}
	if s.load.Program && foreign {
		s.report(Finding{ID: FHSInterpreter, Message: fmt.Sprintf("the program asks for the loader %s, which is not Nix's", s.file.Interp),
			Remedy: remedy.Do("add autoPatchelfHook to nativeBuildInputs")})
	}
	s.driver(s.load.Objects[1:])
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

// driver reports the stubs and harmful compat packages among objects.
func (s *subject) driver(objects []*loader.Object) {
	for _, o := range objects {
		v := s.its.Verdict(o)
		if v == nil || v.Kind != explain.StubLoaded && v.Kind != explain.CompatHarms {
			continue
		}
		f := Finding{ID: v.Kind, Library: o.Name, Message: strings.TrimSuffix(v.Text, "."), Remedy: v.Remedy}
		if !o.Cause.Certain() {
			f.Severity = Warning
		}
		s.report(f)
	}
}

// elsewhere reports whether the file is for another system than this one: for another machine, or for musl, and the
// loader is not here. A package may hold such a variant beside the one that is used.
func (s *subject) elsewhere() bool {
	in := s.load.Interp
	return !in.Found && (in.Kind == loader.Musl || !s.native())
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

// knowledge is what the audit has learnt from all its files together.
type knowledge struct {
	mu sync.Mutex
	// satisfied are the requests (file, name) that were met in some load.
	satisfied map[[2]string]bool
	// provides are the absolute paths of the examined files by soname and by file name.
	provides map[string][]string
	examined map[string]bool // by the path on this machine
	// loaders are the files in whose loads a name was found, of each name one: a program wherever there
	// is one, the first by its path.
	loaders map[string]opener
	// opens are the files that have a name among their strings, the first two by their paths of each.
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
	main, who := of.load.Main.File, opener{of.path, of.file, of.load.Program}
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
		if by := c.opens[name]; !slices.Contains(by, main.Path) {
			by = append(by, main.Path)
			slices.Sort(by)
			c.opens[name] = by[:min(len(by), 2)]
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
			if by, known := c.loaders[u.Name]; !known || who.program && !by.program || who.program == by.program && who.path < by.path {
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

// open reports whether a problem depends on the other files of the audit.
func open(p explain.Problem) bool {
	return p.Kind == explain.Unresolved || p.Kind == explain.UnresolvedIndirect || p.Kind == explain.MissingVersion || p.Kind == explain.LibcMismatch && !p.Object.Found()
}

// lacks reports whether anything is missing, once the file's own use of dlopen has been followed.
func (s *subject) lacks() bool {
	return slices.ContainsFunc(s.its.Problems(), open) || slices.ContainsFunc(s.load.Objects, s.lacksDriver)
}

// lacksDriver reports whether an object is a library of the driver that the file itself asks for,
// and that is not found.
func (s *subject) lacksDriver(o *loader.Object) bool {
	return !o.Found() && o.NeededBy == s.load.Main && driver.Provides(path.Base(o.Name)) && (o.Cause != loader.Needed || driver.Provides(o.Name))
}

// unresolved reports what is missing, once all files have been seen.
func (s *subject) unresolved(c *knowledge) {
	s.its.Provider = c.provider
	indirect := map[string]bool{}
	for _, p := range s.its.Problems() {
		if !open(p) {
			continue
		}
		name, direct := p.Object.Name, p.By == s.load.Main
		switch {
		case c.satisfied[s.request(p.By, name)]:
			// A program loads this library and what it needs: it is never loaded alone.
		case p.Kind == explain.MissingVersion:
			if f := Concluded(p); direct || s.load.Program {
				if !s.load.Program {
					f.Severity = Warning // a program may have loaded a newer one before
				}
				s.report(f)
			}
		case direct, (s.load.Program || !c.examined[p.By.File.Path]) && !indirect[name]:
			indirect[name] = indirect[name] || !direct
			s.notFound(p, c)
		}
	}
	for _, o := range s.load.Objects {
		if s.lacksDriver(o) {
			s.driverMissing(s.its.Verdict(o))
		}
	}
}

// notFound reports a library that is not found for the file itself, or for one that it loads.
func (s *subject) notFound(p explain.Problem, c *knowledge) {
	f := Concluded(p)
	switch {
	case s.elsewhere():
		f.Severity = Note
		f.Message += "; the file is for another system, whose loader is not here"
	case !s.load.Program && f.ID != explain.LibcMismatch:
		var who string
		who, f.Severity = c.before(f.Library, p.By.File, s.load)
		f.Message += who
	}
	i := slices.IndexFunc(s.found, func(g Finding) bool { return g.Library == f.Library && (g.ID == RelativeNeeded || g.ID == BuildNeeded) })
	if i < 0 {
		s.report(f)
		return
	}
	s.found[i].Remedy = f.Remedy // which of the other files is that library was not known yet
}

// driverMissing: a library of the driver, which no build machine has.
func (s *subject) driverMissing(v *explain.Verdict) {
	f := Finding{ID: v.Kind, Library: path.Base(v.Soname), Message: strings.TrimSuffix(v.Text, "."), Remedy: v.Remedy}
	switch {
	case v.Kind == explain.DriverAbsent:
	case strings.Contains(v.Soname, "/"):
		f.Severity = Warning
	case !s.its.OfNix():
		f.Severity = Note
	case v.Object.Cause != loader.Needed:
		f.Severity = Warning
	}
	s.report(f)
}
