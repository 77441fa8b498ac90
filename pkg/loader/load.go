package loader

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/ldcache"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/runpath"
)

// Cause says why a library is loaded.
type Cause string

// The causes.
const (
	Needed       Cause = "DT_NEEDED"
	Auxiliary    Cause = "DT_AUXILIARY"
	Filter       Cause = "DT_FILTER"
	Preload      Cause = "LD_PRELOAD"
	PreloadFile  Cause = "ld.so.preload"
	DlopenNote   Cause = ".note.dlopen" // the file says that it may open it
	DlopenString Cause = "string"       // a name in read-only data: a guess
	DlopenScript Cause = "script"       // a script that the program interprets opens it
	DlopenAsked  Cause = "dlopen"       // the caller of this package asked
	AuditEnv     Cause = "LD_AUDIT"     // an auditing module, in a namespace of its own
	Audit        Cause = "DT_AUDIT"     // likewise
	DepAudit     Cause = "DT_DEPAUDIT"  // likewise, for a library that the program needs
)

// Certain reports whether it makes the loader load a library at start, or together with
// the one that asks for it.
func (c Cause) Certain() bool {
	return c != DlopenNote && c != DlopenString && c != DlopenScript && c != DlopenAsked
}

// Optional reports whether the loader continues without it.
func (c Cause) Optional() bool {
	return c == Auxiliary || c == Preload || c == PreloadFile || c == AuditEnv || c == Audit || c == DepAudit
}

// Environment is what of a program's environment the loader's search depends on; "" is unset.
type Environment struct {
	LibraryPath string // LD_LIBRARY_PATH
	Preload     string // LD_PRELOAD
	Audit       string // LD_AUDIT
	HWCapMask   string // LD_HWCAP_MASK
	Tunables    string // GLIBC_TUNABLES, of which glibc.cpu.hwcaps and glibc.cpu.hwcap_mask count
	BindNow     string // LD_BIND_NOW: unless it is empty, glibc binds all functions at the start
	// NixLD and NixLDLibraryPath are NIX_LD and NIX_LD_LIBRARY_PATH, for programs whose loader is nix-ld, which has values
	// of its own built in.
	NixLD, NixLDLibraryPath string
}

// Options say what the search depends on beside the files.
type Options struct {
	Root string // the tree that stands for "/"; "" for this machine's
	Environment
	// AssumeDriver is a directory of this machine that stands for the driver link.
	AssumeDriver string
	// DriverLink replaces the usual driver link as the directory that AssumeDriver stands for.
	DriverLink string
	CPU        string // "native" (also ""), "baseline", or one of CPUNames
	// ReadsNote says whether glibc's loaders read resolution notes: "yes", "no", or "" for what
	// each loader's file says.
	ReadsNote string
	// Opened says that what files may open will be asked for: it is then read at once.
	Opened bool
	// NoTries leaves out Object.Tried, which makes a run over many files faster.
	NoTries bool
	// Look is called for each ELF file while it is open, with its image, a reader and its first bytes; what it
	// returns is kept in File.Seen. It is called from several goroutines.
	Look func(f *files.File, im *elfimage.Image, r io.ReaderAt, head []byte) any
}

// Loader answers for many files, with what it has read kept. It is safe for concurrent use.
type Loader struct {
	o       Options
	files   *files.Files
	base    *Loader  // of which this is a view; or nil
	caches  sync.Map // string → func() (*ldcache.Cache, error)
	systems sync.Map // systemKey → *system
	cwd     string   // below the root, where that is not this machine's
}

// New returns a loader for the options.
func New(o Options) (*Loader, error) {
	of := files.Options{Root: o.Root, Opened: o.Opened, Look: o.Look}
	if o.Root != "" {
		st, err := os.Stat(o.Root)
		if err != nil {
			return nil, err
		}
		if !st.IsDir() {
			return nil, fmt.Errorf("%s: not a directory", o.Root)
		}
	}
	if o.AssumeDriver != "" {
		dir, err := regular.Real(o.AssumeDriver)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.AssumeDriver, err)
		}
		of.Driver, of.Links = dir, []string{o.DriverLink, driver.Link, driver.Link32}
	}
	l := &Loader{o: o, files: files.New(of), cwd: "/"}
	if l.files.Host("") == "" {
		var err error
		if l.cwd, err = os.Getwd(); err != nil {
			l.cwd = "/proc/self/cwd" // it was removed: nothing is found in it
		}
	}
	return l, nil
}

// Edited returns a loader like this one to which files are what edit makes of them: it sets Tag,
// List, Interp and Note of those of File.Path that it knows. What either reads need not be read
// again. edit is called from several goroutines.
func (l *Loader) Edited(edit func(*files.File)) *Loader {
	return &Loader{o: l.o, cwd: l.cwd, files: l.files.Edited(edit), base: l}
}

// Unknown returns a loader like this one on the best processor of a machine, where files are to be loaded on a
// processor that nobody named and that this machine does not have; nil where the processor is known, or all are the
// same.
func (l *Loader) Unknown(m elf.Machine) *Loader {
	levels := Levels(m)
	if l.o.CPU != "" && l.o.CPU != "native" || len(levels) == 0 || nativeCPU().machine == m {
		return nil
	}
	o := l.o
	o.CPU = levels[0]
	return &Loader{o: o, cwd: l.cwd, files: l.files}
}

// Environment returns what programs have that no wrapper starts.
func (l *Loader) Environment() Environment { return l.o.Environment }

// Files returns the view of the file system.
func (l *Loader) Files() *files.Files { return l.files }

// Take reads an open file, to which a path below the root leads, so that it need not be opened again.
func (l *Loader) Take(p string, fd int) { l.files.TakeOpen(l.abs(p), fd) }

// Path is [files.Files.Path], Host [files.Files.Host], Inside [files.Files.Inside].
func (l *Loader) Path(host string) string   { return l.files.Path(host) }
func (l *Loader) Host(p string) string      { return l.files.Host(p) }
func (l *Loader) Inside(host string) string { return l.files.Inside(host) }

// Object is one file of a load, or a name for which there is none.
type Object struct {
	Name     string      // as it was asked for, tokens replaced
	Path     string      // as the loader prints it; "" where nothing was found
	File     *files.File // nil where nothing was found
	Rule     Rule
	Entry    string  // the entry of the list by which it was found, as written
	List     *Object // whose DT_RPATH or DT_RUNPATH it was
	NeededBy *Object // the first to ask for it; nil for the program and preloaded libraries
	Cause    Cause
	// Tried are the places where the loader looked before.
	Tried []Try
	// Err says why a file that was found stops the load.
	Err string
	// Why says why a name was not looked for at all; "" where it was.
	Why string
	// Lacks are the symbol versions that others need of it and that it does not define.
	Lacks []Lack
	Uses  []Use // in the order of loading

	origin string
	loader *Object // l_loader: whose DT_RPATH is searched next
	names  []string
	list   []element // the directories of its DT_RPATH or DT_RUNPATH; nil until they are asked for
	// noteless: the loader has come to where its resolution note is malformed.
	noteless bool
	late     bool // loaded by dlopen, or for a library that is
	settled  bool // what it needs was looked for, by a start or a dlopen that is done
	// awaited: it is missing, and was looked for in a driver link that does not exist.
	awaited bool
	fails   string // see Fails

	// Of the last call of deps that came to it, by its number.
	round, visits int
	visited       int
}

// Certain reports whether the loader loads the object, or looks for it, at start.
func (o *Object) Certain() bool { return !o.late && o.Cause.Certain() }

// Use is one library that an object asks for.
type Use struct {
	Name    string
	Cause   Cause
	Feature string // what for, as .note.dlopen says
	To      *Object
	Again   bool // it was loaded before
}

// Try is a place where a library was looked for.
type Try struct {
	Path  string
	Rule  Rule
	Entry string  // of the list
	List  *Object // whose list
	Why   string  // why it was not taken
	There bool    // a file of the name is there, or a link that leads nowhere
	Alien bool    // it is for another class or machine: see [files.ABI.Refuses]
}

// Load is what one program, or library, loads. Its conditions stay as they were asked; the namespace and the rest grow
// as it goes on. What is in a file is a [files.File], which many loads share and none changes.
type Load struct {
	Conditions
	Namespace
	// Audits are the loads of auditing modules, each in a namespace of its own.
	Audits []*Load
	// Opened and Failed are the calls of dlopen that succeeded, and those that left nothing.
	Opened, Failed []*Opening
	Err            string // why the program would not start: the first fatal error
	// Truncated is set where the search was given up because it had no end in sight.
	Truncated bool

	phase   phase
	opening *Opening // the call of dlopen whose libraries are being checked
	// What was done: directories searched and names compared, places remembered, calls of deps.
	steps, tries, rounds int
}

// Conditions are what a search depends on beside the files: what was asked, and what follows from that. Nothing changes
// them.
type Conditions struct {
	Environment
	Role   Role
	Interp *Interpreter
	CPU    CPU
	// Secure says by what the program runs with more rights than its caller (AT_SECURE): "set-user-ID", "set-group-ID",
	// "file capabilities"; "" where it does not.
	Secure string

	l      *Loader
	abi    files.ABI
	system *system
	env    []element // of LD_LIBRARY_PATH
	direct bool      // only what the file itself asks for
}

// Namespace is the list of what is loaded, in which the loader compares names (dlmopen(3)).
type Namespace struct {
	Main    *Object   // what was asked about, or an auditing module
	Objects []*Object // in the order of loading, Main first, missing ones included

	self  *Object   // the loader
	base  *Object   // the program, whose DT_RPATH counts in every namespace
	order []*Object // in which the loader compares names, where that is not Objects
}

// Role is what a file is to the kernel and the loader.
type Role int

// The roles.
const (
	Library Role = iota // others load it
	Program             // the kernel starts it, with an interpreter
	Static              // it loads nothing: a static program, or the loader itself
)

// phase is how far a load has come.
type phase int

const (
	starting phase = iota
	crashed        // the loader fails at an assertion, or crashes, before it has loaded all
	started        // all that is loaded at start is there: errors are dlopen's, and the program's to deal with
)

// Bounds of one load, far above what real programs need, for files made to keep
// us busy: libraries, directories searched and names compared, places remembered.
const (
	maxObjects = 5000
	maxSteps   = 1_000_000
	maxTries   = 100_000
	// maxElements is how many entries of one list are looked at: each costs look-ups
	// for all hardware directories, and is remembered.
	maxElements = 4096
)

// NotLoadable is the error for ELF files that no loader loads.
type NotLoadable struct{ Reason elfimage.Reason }

func (e *NotLoadable) Error() string { return "no loader loads it: " + string(e.Reason) }

// Unreadable is the error for a file that cannot be read, which says nothing of what is in it.
type Unreadable string

func (e Unreadable) Error() string { return string(e) }

// Load finds what the file at a path below the root loads at start. An error, which
// does not name the path, is returned where the file itself cannot be examined;
// what is wrong with its libraries is in the result.
func (l *Loader) Load(p string) (*Load, error) { return l.Start(p, "", l.o.Environment) }

// Start is Load in an environment; of a library, as a program with an interpreter loads it: see [Loader.Direct].
func (l *Loader) Start(p, interp string, env Environment) (*Load, error) {
	return l.load(p, interp, Conditions{Environment: env})
}

// Direct finds the libraries that a file itself asks for, not what those ask for, as a
// program with an interpreter finds them that opens the file with dlopen; "" for the
// interpreter that the file names or, where it names none, the usual one.
func (l *Loader) Direct(p, interp string) (*Load, error) {
	return l.load(p, interp, Conditions{Environment: l.o.Environment, direct: true})
}

func (l *Loader) load(p, interp string, asked Conditions) (*Load, error) {
	f := l.files.Open(l.abs(p))
	if f.Errno != 0 {
		return nil, Unreadable(files.ErrText(f.Errno))
	}
	if f.ELF == nil || f.Err != nil {
		if why := f.Problem(); errors.As(f.Err, new(files.ReadError)) {
			return nil, Unreadable(why)
		} else if f.Err != nil {
			return nil, f.Err // which may be that it contradicts itself
		} else if f.IsNoELF() {
			return nil, elfimage.ErrNotELF
		} else if why != "" {
			return nil, errors.New(why)
		}
	}
	if f.InterpErr != nil {
		return nil, f.InterpErr
	}
	switch why := f.ELF.SkipReason(); why {
	case "", elfimage.Loader:
	case elfimage.Static, elfimage.StaticPIE:
		s := &Load{Conditions: Conditions{Role: Static, l: l}}
		s.Main = &Object{Name: p, Path: p, File: f, Rule: ByProgram}
		return s, nil
	default:
		return nil, &NotLoadable{why}
	}
	s := &Load{Conditions: asked}
	s.l, s.CPU = l, cpuFor(l.o.CPU, f.Machine)
	s.abi, _ = f.ABI()
	main := &Object{Name: p, Path: p, File: f, Rule: ByProgram, origin: originOf(l.abs(p))}
	s.Main, s.base, s.Objects = main, main, append(s.Objects, main)
	// A program's $ORIGIN is the directory of /proc/self/exe, which has no links
	// in it (elf/dl-origin.c); a library's is the directory of the path it was found by.
	if f.Interp != "" && (f.Soname == "" || f.Type == elf.ET_EXEC || f.Flags1&elf.DF_1_PIE != 0) {
		s.Role, s.Secure, main.origin = Program, f.Secure(), originOf(l.files.Inside(f.Path))
	}
	key := systemKey{interp: cmp.Or(interp, f.Interp), nixLD: s.NixLD, abi: s.abi}
	if key.guessed = key.interp == ""; key.guessed {
		key.interp = l.guess(f, main.origin)
	}
	if s.Secure == "" {
		key.tuning = tuning{s.HWCapMask, s.Tunables}
	}
	s.system = l.system(key, s.CPU)
	s.Interp = s.system.interp
	s.CPU = s.CPU.tuned(s.Interp, key.tuning)
	at := cmp.Or(s.Interp.Path, s.Interp.Soname)
	if s.Interp.Becomes != "" {
		at = s.Interp.Becomes
	}
	s.self = &Object{Name: s.Interp.Soname, Path: at, File: s.Interp.File, Rule: ByLoader, Cause: Needed,
		names: []string{s.Interp.Soname, at}, origin: originOf(s.Interp.Path)}
	if f.ELF.SkipReason() == elfimage.Loader {
		s.Role = Static
		return s, nil
	}
	if s.Interp.Kind == Musl {
		s.startMusl()
	} else {
		s.startGLibc()
	}
	s.phase = started
	s.settle(0)
	return s, nil
}

// Stops says why the program would not start, by the kernel's account or the loader's;
// "" where it would.
func (s *Load) Stops() string {
	if in := s.Interp; s.Err == "" && in != nil && s.Main.File.Interp != "" && in.Why != "" {
		return fmt.Sprintf("its interpreter %s %s", in.Path, in.Why)
	}
	return s.Err
}

// Inside is [Loader.Inside].
func (s *Load) Inside(host string) string { return s.l.files.Inside(host) }

// Loader is the loader of the load.
func (s *Load) Loader() *Loader { return s.l }

// Absolute returns a path below the root that may be relative to the working directory as an absolute one.
func (l *Loader) Absolute(p string) string { return l.abs(p) }

func (l *Loader) abs(p string) string {
	if strings.HasPrefix(p, "/") {
		return p
	}
	return strings.TrimSuffix(l.cwd, "/") + "/" + p
}

// originOf is the directory of an absolute path, as text: ".." and links stay
// (_dl_new_object in elf/dl-object.c).
func originOf(p string) string {
	i := strings.LastIndexByte(p, '/')
	if i <= 0 {
		return "/"
	}
	return p[:i]
}

// fatal records an error that stops the load at an object.
func (s *Load) fatal(o *Object, format string, args ...any) {
	o.Err = fmt.Sprintf(format, args...)
	if o.Cause.Certain() && !o.Cause.Optional() {
		s.stop("%s: %s", o.Path, o.Err)
	}
}

// stop records why the program does not start.
func (s *Load) stop(format string, args ...any) {
	if s.Err == "" && s.phase != started {
		s.Err = fmt.Sprintf(format, args...)
	}
}

// crash records that the loader does not come to the end of the start.
func (s *Load) crash() {
	if s.phase == starting {
		s.phase = crashed
	}
}

// Missing returns the certain libraries for which nothing was found, each name
// once for each object that asks.
func (s *Load) Missing() []*Object {
	var out []*Object
	for _, o := range s.Objects {
		if !o.Found() && o.Certain() && !o.Cause.Optional() {
			out = append(out, o)
		}
	}
	return out
}

// Fails says why opening the object would fail, for itself or for what it needs, the nearer
// first; "" where it would not.
func (o *Object) Fails() string {
	if o.fails != "" {
		return o.fails
	}
	all, seen := []*Object{o}, map[*Object]bool{o: true}
	for i := 0; i < len(all); i++ {
		switch o := all[i]; {
		case o.Why != "":
			return o.Name + ": " + o.Why
		case !o.Found() && o.NeededBy != nil:
			return fmt.Sprintf("%s, which %s needs, is not found", o.Name, o.NeededBy.Path)
		case !o.Found():
			return o.Name + " is not found"
		case o.Err != "":
			return o.Path + ": " + o.Err
		case o.lacksAtOnce():
			return o.Path + ": " + o.LackText()
		}
		for _, u := range all[i].Uses {
			if u.Cause.Certain() && !seen[u.To] && !(u.Cause.Optional() && (!u.To.Found() || u.To.Err != "")) {
				seen[u.To] = true
				all = append(all, u.To)
			}
		}
	}
	return ""
}

// Passed says what is wrong with the first file of the name that is there, and was passed
// over: its path and why. Both are "" where there is none.
func (o *Object) Passed() (path, why string) {
	for _, t := range o.Tried {
		if t.There {
			return t.Path, t.Why
		}
	}
	return "", ""
}

// Found reports whether a file was found for the object.
func (o *Object) Found() bool { return o.Rule != NotFound }

// element is one directory of a list.
type element struct {
	dir   string // tokens replaced, with a slash at its end; "" is the working directory
	entry string // as written
	// ignored says why the loader does not search it; "" where it does.
	ignored string
}

// elements is fillin_rpath of elf/dl-load.c.
func elements(list, separators string, t runpath.Tokens) []element {
	var out []element
	seen := map[string]bool{}
	for _, entry := range splitList(list, separators) {
		if len(out) == maxElements {
			break
		}
		dir := ""
		if entry != "" {
			if dir = t.Expand(entry); dir == "" {
				if !seen["$"+entry] {
					seen["$"+entry] = true
					out = append(out, element{"", entry, t.Ignored()})
				}
				continue
			}
			dir = strings.TrimRight(dir, "/") + "/"
		}
		if !seen[dir] {
			seen[dir] = true
			out = append(out, element{dir, entry, ""})
		}
	}
	return out
}

func (s *Load) tokens(o *Object) runpath.Tokens {
	return runpath.Tokens{Origin: o.origin, Lib: s.Interp.Lib, Platform: s.CPU.Platform, Secure: s.Secure != "",
		Executable: o.Rule == ByProgram, Trusted: s.Interp.Dirs}
}

// list returns the directories of an object's DT_RPATH or DT_RUNPATH.
func (s *Load) list(o *Object, tag elf.DynTag) []element {
	if o.File == nil || o.File.Tag != tag {
		return nil
	}
	if o.list != nil {
		return o.list
	}
	e := elements(o.File.List, ":", s.tokens(o))
	if n := strings.Count(o.File.List, ":") + 1; n > maxElements && !s.Truncated {
		s.Truncated = true
		if s.Err == "" {
			s.Err = fmt.Sprintf("the run path of %s has %d entries: only the first %d different ones are looked at", o.Path, n,
				maxElements)
		}
	}
	o.list = e
	return e
}

// outcome is the result of a search.
type outcome struct {
	path  string
	file  *files.File
	rule  Rule
	entry string
	list  *Object
	fatal string
	tried []Try
	// awaited: a driver link that does not exist was searched.
	awaited bool
}

// try remembers a place where nothing was taken, and answers false.
func (s *Load) try(r *outcome, t Try) bool {
	if s.tries++; !s.l.o.NoTries && s.tries <= maxTries {
		r.tried = append(r.tried, t)
	}
	return false
}

// verify is verify for the machine and the interpreter of this load.
func (s *Load) verify(f *files.File) (skip, fatal string) {
	return verify(s.abi, f, s.Interp != nil && s.Interp.debian)
}

// take takes a file that a rule leads to, or remembers why the loader passes it over.
func (s *Load) take(r *outcome, f *files.File, t Try) bool {
	var fatal string
	if t.Why = files.ErrText(f.Errno); f.Errno == 0 {
		t.Why, fatal = s.verify(f)
		t.There, t.Alien = true, true
	}
	if t.Why != "" {
		return s.try(r, t)
	}
	r.path, r.file, r.rule, r.entry, r.list, r.fatal = t.Path, f, t.Rule, t.Entry, t.List, fatal
	return true
}

// mapped returns the library that is in the process already and is a file, under whatever name; nil for none. One that
// could not be loaded, though nothing stopped for that, is not in it.
func (s *Load) mapped(f *files.File) *Object {
	for _, known := range s.Objects {
		if known != s.Main && known != s.self && known.Found() && known.Err == "" && known.File != nil && known.File.Is(f) {
			return known
		}
	}
	return nil
}

// step counts work; it answers false once there has been too much of it.
func (s *Load) step(n int) bool {
	if s.steps += n; s.steps <= maxSteps {
		return true
	}
	if !s.Truncated {
		s.Truncated = true
		if s.Err == "" {
			s.Err = "the search was given up: more directories and names than any real program has"
		}
	}
	return false
}

// isDriverLink reports whether a directory is one that the host's driver is looked for in.
func (l *Loader) isDriverLink(dir string) bool {
	dir = runpath.Key(dir)
	return dir == driver.Link || dir == driver.Link32 || l.o.DriverLink != "" && dir == runpath.Key(l.o.DriverLink)
}

// existing returns which subdirectories of an absolute directory there are.
func (l *Loader) existing(dir string, subs []string) (out []string) {
	bare := func(dir string) string { // as the loader looks at it: the last slash may be the byte that is one too many
		if len(dir) < 4096 {
			return dir
		}
		return strings.TrimSuffix(dir, "/")
	}
	names := l.files.Names(bare(dir))
	for _, sub := range subs {
		// The listing, which the search needs anyway, spares a look for each.
		first, _, _ := strings.Cut(sub, "/")
		if (sub == "" || names == nil || names[first]) && l.files.IsDir(bare(dir+sub)) {
			out = append(out, sub)
		}
	}
	return out
}

// openPath looks for a name without a slash in a list of directories: open_path of
// elf/dl-load.c. done reports that a file was found or the load has failed.
func (s *Load) openPath(name string, dirs []element, rule Rule, list *Object, r *outcome) (done bool) {
	for _, e := range dirs {
		if !s.step(1) {
			return false
		}
		if e.ignored != "" {
			s.try(r, Try{Rule: rule, Entry: e.entry, List: list, Why: e.ignored})
			continue
		}
		dir, relative := e.dir, false
		if !strings.HasPrefix(dir, "/") {
			dir, relative = s.l.abs(dir), true
		}
		subs := s.system.subdirs
		if !relative {
			subs = s.l.existing(dir, s.system.subdirs)
		}
		if len(subs) == 0 {
			why := "the directory does not exist"
			if s.l.files.At(cmp.Or(strings.TrimRight(dir, "/"), "/")).Errno == 0 {
				why = "the entry is a file, not a directory"
			}
			r.awaited = r.awaited || s.l.isDriverLink(dir)
			s.try(r, Try{Path: e.dir + name, Rule: rule, Entry: e.entry, List: list, Why: why})
			continue
		}
		var last syscall.Errno
		for _, sub := range subs {
			f := s.l.files.OpenIn(dir+sub, name)
			t := Try{Path: e.dir + sub + name, Rule: rule, Entry: e.entry, List: list, There: f.There()}
			switch last = f.Errno; {
			case sub != "" && last == syscall.ENOENT: // a dangling link, too
			case f.Dangling:
				t.Why = "is a symbolic link that leads nowhere"
				s.try(r, t)
			case s.take(r, f, t):
				return true
			case last == 0:
				last = syscall.ENOENT
			}
		}
		// "The file exists and is readable, but something went wrong": this list is given up.
		if last != syscall.ENOENT && last != syscall.EACCES && !(last == syscall.ENOTDIR && s.Interp.Version >= 39) {
			return false
		}
	}
	return false
}

// Cache returns the ld.so.cache at a path below the root; nil where there is none that the loader could use.
func (l *Loader) Cache(p string) (*ldcache.Cache, error) {
	if l.base != nil { // nobody edits it
		return l.base.Cache(p)
	}
	v, _ := l.caches.LoadOrStore(p, sync.OnceValues(func() (*ldcache.Cache, error) {
		at := l.files.At(p)
		if at.Errno != 0 {
			return nil, at.Errno
		}
		f, st, err := regular.Open(at.Host)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return ldcache.Parse(f, st.Size())
	}))
	return v.(func() (*ldcache.Cache, error))()
}

// Expand returns the directory that an entry of an object's run path names, with
// a trailing slash only where the entry is "/"; the working directory for an empty
// entry. ok is false where the loader ignores the entry.
func (s *Load) Expand(o *Object, entry string) (dir string, ok bool) {
	if entry == "" {
		return s.l.cwd, true
	}
	if s.Interp != nil && s.Interp.Kind == Musl {
		dir = muslExpand(entry, o.origin)
	} else {
		t := runpath.Tokens{Origin: o.origin, Lib: "lib", Platform: s.CPU.Platform}
		if s.Interp != nil {
			t = s.tokens(o)
		}
		dir = t.Expand(entry)
	}
	if dir == "" {
		return "", false
	}
	if trimmed := strings.TrimRight(dir, "/"); trimmed != "" {
		dir = trimmed
	} else {
		dir = "/"
	}
	return s.l.abs(dir), true
}

// In returns the file that a search of one directory for a name without a slash
// would find, glibc-hwcaps subdirectories aside; nil where the loader of this
// load would pass it over. why says what is wrong with a file that is there.
func (s *Load) In(dir, name string) (f *files.File, why string) {
	f = s.l.files.OpenIn(dir, name)
	if f.Errno != 0 {
		if f.Errno == syscall.ENOENT {
			return nil, ""
		}
		return nil, files.ErrText(f.Errno)
	}
	if skip, fatal := s.verify(f); skip != "" || fatal != "" {
		return nil, skip + fatal
	}
	return f, ""
}

// Holds reports whether In finds a file; none where dir is "".
func (s *Load) Holds(dir, name string) bool {
	if dir == "" {
		return false
	}
	f, _ := s.In(dir, name)
	return f != nil
}

// Noted returns the file that an object's own resolution note leads to for a name, and where it was
// found, whether the loader reads notes or not; nil for none.
func (s *Load) Noted(o *Object, name string) (f *files.File, path string) {
	if s.Interp == nil || s.Interp.Kind != GLibc {
		return nil, ""
	}
	of, r := *o, &outcome{}
	s.byNote(name, &of, r)
	return r.file, r.path
}

// Own returns the file that an object's own run path leads to for a name without a slash,
// where it was found, and the entry; nil for none.
func (s *Load) Own(o *Object, name string) (f *files.File, path, entry string) {
	if o.File == nil || o.File.Tag == 0 || s.Interp == nil || strings.Contains(name, "/") {
		return nil, "", ""
	}
	r := &outcome{}
	if s.Interp.Kind == Musl {
		s.muslOpen(name, s.muslList(o), ByRunPath, o, r)
	} else {
		s.openPath(name, s.list(o, o.File.Tag), ByRunPath, o, r)
	}
	if r.fatal != "" {
		return nil, "", ""
	}
	return r.file, r.path, r.entry
}

// Default returns the file that the loader would find for a name without any run
// path or environment: by its cache, then in its default directories; nil for none.
func (s *Load) Default(name string) *files.File {
	r := &outcome{}
	if s.Interp == nil || s.Interp.Kind != GLibc || strings.Contains(name, "/") {
		return nil
	}
	s.fromSystem(name, r)
	if r.fatal != "" {
		return nil
	}
	return r.file
}

// Ignored returns, of the entries that the loader ignores because the program runs
// with more rights than its caller, the first that would lead to a name: the directory.
func (s *Load) Ignored(o *Object, name string) (dir string) {
	if s.Secure == "" || o.File == nil {
		return ""
	}
	t := s.tokens(o)
	for _, e := range s.list(o, o.File.Tag) {
		t.Secure = false
		if e.ignored == "" {
			continue
		}
		if dir := strings.TrimRight(t.Expand(e.entry), "/"); strings.HasPrefix(dir, "/") {
			if s.Holds(dir, name) {
				return dir
			}
		}
	}
	return ""
}

// UsualInterpreter is [Loader.UsualInterpreter] for programs like the file.
func (s *Load) UsualInterpreter() string { return s.l.UsualInterpreter(s.abi, s.Interp.Kind) }

// UsualInterpreter returns the loader of this system's own programs of an files.ABI and a C library: where
// distributions have it, else the one that /bin/sh names, as NixOS has its loaders in the store alone; "" where there
// is none.
func (l *Loader) UsualInterpreter(abi files.ABI, kind Kind) string {
	places, shell := []string{systemOf(abi).interpreter}, l.files.Open("/bin/sh")
	if a, ok := shell.ABI(); ok && shell.Interp != "" && abi.Accepts(a) {
		places = append(places, shell.Interp)
	}
	for _, p := range places {
		if in := l.Interpreter(p, abi); in.Found && in.Kind == kind {
			return p
		}
	}
	return ""
}

// Interpreter returns what is known of the loader at a path, for programs of an ABI.
func (l *Loader) Interpreter(p string, abi files.ABI) *Interpreter {
	return l.system(systemKey{interp: p, nixLD: l.o.NixLD, abi: abi}, cpuFor(l.o.CPU, abi.Machine)).interp
}

// OfTheHost returns the library of a name that the host's own ld.so.cache has for the file's
// files.ABI, where the file's loader reads another cache, or none; "" for none.
func (s *Load) OfTheHost(name string) string {
	if s.Interp.Cache == ldcache.Path {
		return ""
	}
	if cache, _ := s.l.Cache(ldcache.Path); cache != nil {
		if e, ok := cache.Resolve(name, cacheABI(s.abi), s.system.processor); ok {
			if skip, fatal := s.verify(s.l.files.Open(e.Path)); skip == "" && fatal == "" {
				return e.Path
			}
		}
	}
	return ""
}

// splitList splits a list at any of the separators. An empty list has no entries.
func splitList(list, separators string) []string {
	if list == "" {
		return nil
	}
	for _, other := range separators[1:] {
		list = strings.ReplaceAll(list, string(other), separators[:1])
	}
	return strings.Split(list, separators[:1])
}
