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

// Certain reports whether the loader loads such a library at start, or together with the one that asks for it.
func (c Cause) Certain() bool {
	return c != DlopenNote && c != DlopenString && c != DlopenScript && c != DlopenAsked
}

// Optional reports whether the loader continues without it.
func (c Cause) Optional() bool {
	return c == Auxiliary || c == Preload || c == PreloadFile || c == AuditEnv || c == Audit || c == DepAudit
}

// Environment holds the variables that the loader's search depends on; "" is unset.
type Environment struct {
	LibraryPath string // LD_LIBRARY_PATH
	Preload     string // LD_PRELOAD
	Audit       string // LD_AUDIT
	HWCapMask   string // LD_HWCAP_MASK
	Tunables    string // GLIBC_TUNABLES, of which glibc.cpu.hwcaps and glibc.cpu.hwcap_mask count
	BindNow     string // LD_BIND_NOW: unless it is empty, glibc binds all functions at the start
	// NixLD and NixLDLibraryPath are NIX_LD and NIX_LD_LIBRARY_PATH, for programs whose loader is nix-ld. It also has
	// built-in values.
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
	// Opened: what files may open will be asked for, so it is read at once.
	Opened bool
	// NoTries leaves out Object.Tried, which makes a run over many files faster.
	NoTries bool
	// Look is called for each ELF file while it is open, with its image, a reader and its first bytes; what it
	// returns is kept in File.Seen. It is called from several goroutines.
	Look func(f *files.File, im *elfimage.Image, r io.ReaderAt, head []byte) any
}

// Loader answers for many files, and keeps what it has read. It is safe for concurrent use.
type Loader struct {
	o       Options
	files   *files.Files
	base    *Loader  // this is a view of it; or nil
	caches  sync.Map // string → func() (*ldcache.Cache, error)
	systems sync.Map // systemKey → *system
	cwd     string   // below the root, if that is not this machine's
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

// Edited returns a loader like this one that sees files as edit changes them. edit sets Tag, List, Interp and Note of
// the files that it knows by File.Path, and is called from several goroutines. The two loaders share what they read.
func (l *Loader) Edited(edit func(*files.File)) *Loader {
	return &Loader{o: l.o, cwd: l.cwd, files: l.files.Edited(edit), base: l}
}

// Unknown returns a loader like this one on the best processor of a machine. It returns nil if the processor was
// named, if this machine has it, or if all are the same.
func (l *Loader) Unknown(m elf.Machine) *Loader {
	levels := Levels(m)
	if l.o.CPU != "" && l.o.CPU != "native" || len(levels) == 0 || nativeCPU().machine == m {
		return nil
	}
	o := l.o
	o.CPU = levels[0]
	return &Loader{o: o, cwd: l.cwd, files: l.files}
}

// Environment returns the environment of programs that no wrapper starts.
func (l *Loader) Environment() Environment { return l.o.Environment }

// Files returns the view of the file system.
func (l *Loader) Files() *files.Files { return l.files }

// Take reads an open file, which a path below the root leads to, so that it need not be opened again.
func (l *Loader) Take(p string, fd int) { l.files.TakeOpen(l.abs(p), fd) }

// Path is [files.Files.Path], Host [files.Files.Host], Inside [files.Files.Inside].
func (l *Loader) Path(host string) string   { return l.files.Path(host) }
func (l *Loader) Host(p string) string      { return l.files.Host(p) }
func (l *Loader) Inside(host string) string { return l.files.Inside(host) }

// Object is one file of a load, or a name without a file.
type Object struct {
	Name     string      // as it was asked for, tokens replaced
	Path     string      // as the loader prints it; "" if nothing was found
	File     *files.File // nil if nothing was found
	Rule     Rule
	Entry    string  // the entry of the list by which it was found, as written
	List     *Object // whose DT_RPATH or DT_RUNPATH it was
	NeededBy *Object // the first to ask for it; nil for the program and preloaded libraries
	Cause    Cause
	// Tried are the places where the loader looked before.
	Tried []Try
	// Err says why a file that was found stops the load.
	Err string
	// Why says why a name was not looked for at all; "" if it was.
	Why string
	// Lacks are the symbol versions that others need of it and it does not define.
	Lacks []Lack
	Uses  []Use // in the order of loading

	origin string
	loader *Object // l_loader: whose DT_RPATH is searched next
	names  []string
	list   []element // the directories of its DT_RPATH or DT_RUNPATH; nil until they are asked for
	// noteless: the loader has reached the malformed part of its resolution note.
	noteless bool
	late     bool // loaded by dlopen, or for a library that is
	settled  bool // a finished start or dlopen has looked for what it needs
	// awaited: it is missing, and a driver link that does not exist was searched.
	awaited bool
	fails   string // see Fails

	// These are of the last call of deps that reached it, by the call's number.
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
	there bool    // a file of the name is there, or a link that leads nowhere
	Alien bool    // it is for another class or machine: see [files.ABI.Refuses]
}

// Load is what one program or library loads. Its conditions never change; the namespace and the rest grow during the
// load. A file's contents are a [files.File], which many loads share and none changes.
type Load struct {
	Conditions
	Namespace
	// Audits are the loads of auditing modules, each in a namespace of its own.
	Audits []*Load
	// Opened and Failed are the calls of dlopen that succeeded, and those that failed.
	Opened, Failed []*Opening
	Err            string // why the program would not start: the first fatal error
	// Truncated: the search was given up because it had no end in sight.
	Truncated bool

	phase   phase
	opening *Opening // the call of dlopen whose libraries are being checked
	// Counts of work: directories searched and names compared, places remembered, calls of deps.
	steps, tries, rounds int
}

// Conditions are what a search depends on beside the files: what was asked, and what follows from it. Nothing changes
// them.
type Conditions struct {
	Environment
	Role   Role
	Interp *Interpreter
	cpu    CPU
	// Secure says what gives the program more rights than its caller has (AT_SECURE): "set-user-ID", "set-group-ID"
	// or "file capabilities"; "" for nothing.
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
	order []*Object // the order in which the loader compares names, if not Objects
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
	started        // all that is loaded at start is there; errors are now dlopen's, for the program to handle
)

// Bounds of one load against malicious files, far above what real programs need: libraries, directories searched and
// names compared, places remembered.
const (
	maxObjects = 5000
	maxSteps   = 1_000_000
	maxTries   = 100_000
	// maxElements bounds the entries of one list that are looked at. Each costs look-ups in all hardware directories,
	// and memory.
	maxElements = 4096
)

// NotLoadable is the error for ELF files that no loader loads.
type NotLoadable struct{ Reason elfimage.Reason }

func (e *NotLoadable) Error() string { return "no loader loads it: " + string(e.Reason) }

// Unreadable is the error for a file that cannot be read. It says nothing about the contents.
type Unreadable string

func (e Unreadable) Error() string { return string(e) }

// Load finds what the file at a path below the root loads at start. The error says why the file itself cannot be
// examined, and does not name the path. What is wrong with its libraries is in the result.
func (l *Loader) Load(p string) (*Load, error) { return l.Start(p, "", l.o.Environment) }

// Start is Load in an environment. A library is loaded as by a program with an interpreter: see [Loader.Direct].
func (l *Loader) Start(p, interp string, env Environment) (*Load, error) {
	return l.load(p, interp, Conditions{Environment: env})
}

// Direct finds the libraries that a file itself asks for, not what those ask for. It finds them as for a program with
// that interpreter that opens the file with dlopen. The interpreter "" is the one that the file names, else the usual
// one.
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
			return nil, f.Err // it may contradict itself
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
	s.l, s.cpu = l, cpuFor(l.o.CPU, f.Machine)
	s.abi, _ = f.ABI()
	main := &Object{Name: p, Path: p, File: f, Rule: ByProgram, origin: originOf(l.abs(p))}
	s.Main, s.base, s.Objects = main, main, append(s.Objects, main)
	// A program's $ORIGIN is the directory of /proc/self/exe, which is free of links (elf/dl-origin.c). A library's
	// is the directory of the path by which it was found.
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
	s.system = l.system(key, s.cpu)
	s.Interp = s.system.interp
	s.cpu = s.cpu.tuned(s.Interp, key.tuning)
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

// Stops says why the kernel or the loader would not start the program; "" if they would.
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

// originOf is the directory part of an absolute path, with ".." and links as they are (_dl_new_object in
// elf/dl-object.c).
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

// crash records that the loader does not finish the start.
func (s *Load) crash() {
	if s.phase == starting {
		s.phase = crashed
	}
}

// Missing returns the certain libraries that were not found, each name once for each object that asks.
func (s *Load) Missing() []*Object {
	var out []*Object
	for _, o := range s.Objects {
		if !o.Found() && o.Certain() && !o.Cause.Optional() {
			out = append(out, o)
		}
	}
	return out
}

// Fails says why opening the object would fail, because of itself or of what it needs, the nearest first; "" if it
// would not.
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

// Passed returns the path of the first file of the name that is there and was passed over, and what is wrong with it.
// Both are "" if there is none.
func (o *Object) Passed() (path, why string) {
	for _, t := range o.Tried {
		if t.there {
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
	// ignored says why the loader does not search it; "" if it does.
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
	return runpath.Tokens{Origin: o.origin, Lib: s.Interp.lib, Platform: s.cpu.platform, Secure: s.Secure != "",
		Executable: o.Rule == ByProgram, Trusted: s.Interp.dirs}
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

// try remembers a place where nothing was taken, and returns false.
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
		t.there, t.Alien = true, true
	}
	if t.Why != "" {
		return s.try(r, t)
	}
	r.path, r.file, r.rule, r.entry, r.list, r.fatal = t.Path, f, t.Rule, t.Entry, t.List, fatal
	return true
}

// mapped returns the library in the process that is the given file, under any name; nil for none. A library that
// could not be loaded is not in the process, even if nothing stopped because of it.
func (s *Load) mapped(f *files.File) *Object {
	for _, known := range s.Objects {
		if known != s.Main && known != s.self && known.Found() && known.Err == "" && known.File != nil && known.File.Is(f) {
			return known
		}
	}
	return nil
}

// step counts work, and returns false once there has been too much.
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

// isDriverLink reports whether the host's driver is looked for in a directory.
func (l *Loader) isDriverLink(dir string) bool {
	dir = runpath.Key(dir)
	return dir == driver.Link || dir == driver.Link32 || l.o.DriverLink != "" && dir == runpath.Key(l.o.DriverLink)
}

// existing returns which subdirectories of an absolute directory there are.
func (l *Loader) existing(dir string, subs []string) (out []string) {
	bare := func(dir string) string { // as the loader looks at it; the last slash may make it a byte too long
		if len(dir) < 4096 {
			return dir
		}
		return strings.TrimSuffix(dir, "/")
	}
	names := l.files.Names(bare(dir))
	for _, sub := range subs {
		// The search needs the listing anyway, and it saves a look-up for each.
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
			t := Try{Path: e.dir + sub + name, Rule: rule, Entry: e.entry, List: list, there: f.There()}
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

// Cache returns the ld.so.cache at a path below the root; nil if there is none that the loader could use.
func (l *Loader) Cache(p string) (*ldcache.Cache, error) {
	if l.base != nil { // nobody edits it
		return l.base.Cache(p)
	}
	v, known := l.caches.Load(p)
	if !known {
		v, _ = l.caches.LoadOrStore(p, sync.OnceValues(func() (*ldcache.Cache, error) {
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
	}
	return v.(func() (*ldcache.Cache, error))()
}

// Expand returns the directory that an entry of an object's run path names, without a trailing slash unless it is
// "/". An empty entry is the working directory. ok is false if the loader ignores the entry.
func (s *Load) Expand(o *Object, entry string) (dir string, ok bool) {
	if entry == "" {
		return s.l.cwd, true
	}
	if s.Interp != nil && s.Interp.Kind == Musl {
		dir = muslExpand(entry, o.origin)
	} else {
		t := runpath.Tokens{Origin: o.origin, Lib: "lib", Platform: s.cpu.platform}
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

// In returns the file that a search of one directory, without glibc-hwcaps subdirectories, finds for a name without a
// slash. It is nil if this load's loader would pass it over. why says what is wrong with a file that is there.
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

// Holds reports whether In finds a file; it finds none if dir is "".
func (s *Load) Holds(dir, name string) bool {
	if dir == "" {
		return false
	}
	f, _ := s.In(dir, name)
	return f != nil
}

// Noted returns the file that an object's own resolution note leads to for a name, and where it was found; nil for
// none. It does not matter whether the loader reads notes.
func (s *Load) Noted(o *Object, name string) (f *files.File, path string) {
	if s.Interp == nil || s.Interp.Kind != GLibc {
		return nil, ""
	}
	of, r := *o, &outcome{}
	s.byNote(name, &of, r)
	return r.file, r.path
}

// Own returns the file that an object's own run path leads to for a name without a slash; nil for none. It also
// returns where the file was found, and the entry.
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

// Default returns the file that the loader would find for a name without any run path or environment, in its cache
// and then in its default directories; nil for none.
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

// Ignored returns the directory of the first ignored entry that would lead to a name. The loader ignores entries if
// the program has more rights than its caller.
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

// UsualInterpreter returns the loader of this system's own programs for a files.ABI and a C library; "" if there is
// none. It is where distributions have it, else the one that /bin/sh names, because NixOS has its loaders only in the
// store.
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

// LoaderOf returns the loader that a program asks for, which is that of the libraries of an ABI that it opens; "" for
// the usual one, also if the program's cannot be read, is not here, or is for another ABI. Nix's loader has no
// ld.so.cache and no /usr/lib, so what the usual one finds there says nothing.
func (l *Loader) LoaderOf(program string, abi files.ABI) string {
	if program == "" {
		return ""
	}
	in := l.files.Open(l.abs(program)).Interp
	if in == "" || l.Interpreter(in, abi).Why != "" {
		return ""
	}
	return in
}

// Interpreter returns what is known of the loader at a path, for programs of an ABI.
func (l *Loader) Interpreter(p string, abi files.ABI) *Interpreter {
	return l.system(systemKey{interp: p, nixLD: l.o.NixLD, abi: abi}, cpuFor(l.o.CPU, abi.Machine)).interp
}

// OfTheHost returns the library of a name in the host's own ld.so.cache, for the file's files.ABI; "" for none. It is
// for files whose loader reads another cache, or none.
func (s *Load) OfTheHost(name string) string {
	if s.Interp.cache == ldcache.Path {
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
