package fixup

import (
	"cmp"
	"debug/elf"
	"fmt"
	"iter"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/runpath"
)

// Interpreter is the program interpreter for programs of a machine, with the C library that they run on.
type Interpreter struct {
	Path string
	LibC string // the directory of the C library

	object *Object
	dir    *dir // of LibC
	libC   LibC
}

// Priority is how much a file wants a library that its .note.dlopen names.
type Priority int

// The priorities, the least first (systemd, "ELF_DLOPEN_METADATA"). A note without one means recommended.
const (
	Suggested Priority = iota
	Recommended
	Required
)

var priorities = []string{"suggested", "recommended", "required"}

// ParsePriority reads a priority's name.
func ParsePriority(s string) (Priority, bool) {
	i := slices.Index(priorities, s)
	return Priority(i), i >= 0
}

// Outcome is how a need was met.
type Outcome string

// The outcomes.
const (
	Found    Outcome = "found"    // a candidate: its directory goes into the run path
	InLibC   Outcome = "libc"     // the C library's directory, which the loader searches anyway
	Absolute Outcome = "absolute" // a path, and there is such a file
	ByDriver Outcome = "driver"   // the driver link
	BySystem Outcome = "system"   // where the loader looks anyway
	Ignored  Outcome = "ignored"  // missing, and meant to be
	Optional Outcome = "optional" // missing, and not required
	Missing  Outcome = "missing"
)

// Need is one library that a file asks for.
type Need struct {
	names    []string // alternatives; the first that is there is taken
	Cause    loader.Cause
	priority Priority

	Outcome   Outcome
	Name      string // the alternative that was taken
	Candidate Candidate
	where     string // of BySystem
	// refused are candidates that do not work in a process, each with the reason (see loop). What is found today may
	// be among them, under nil if it is inherited.
	refused map[*Object]string
	tried   map[*Object]bool // that were refused once

	inherited bool // BySystem, by what the tree's programs load and have in a DT_RPATH
	// Rejected are candidates that were there and could not be used.
	Rejected []Rejection
	// Pattern is the one of Settings.Ignore that makes the need Ignored.
	Pattern string
}

// Rejection is a candidate that the loader could not use.
type Rejection struct {
	Path string
	Why  string
	own  bool // in the tree
}

// newer begins the reason why a library is not taken if the C library, which is loaded before it, is too old.
const newer = "needs a newer C library: "

// tooNew reports whether the library that was not taken is too new for the C library.
func (r Rejection) tooNew() bool { return strings.HasPrefix(r.Why, newer) }

// lacksVersions says why a library is not taken that does not define the versions a file needs of it.
func lacksVersions(names []string) string { return lacks + strings.Join(names, ", ") }

const lacks = "lacks "

// old reports whether the library that was not taken has the right name, but is too old.
func (r Rejection) old() bool { return strings.HasPrefix(r.Why, lacks) }

// unmet reports whether there is nothing for the need.
func (n *Need) unmet() bool {
	return n.Outcome == Missing || n.Outcome == Ignored || n.Outcome == Optional
}

// Label is the name of what is needed in a message.
func (n *Need) Label() string {
	if len(n.names) == 1 {
		return n.names[0]
	}
	return "any(" + strings.Join(n.names, ", ") + ")"
}

// Plan is what will happen to one file.
type Plan struct {
	Object *Object
	// Skip says why the file is skipped, "" if it is not.
	Skip string
	// SkipWarn: the reader may not expect that.
	SkipWarn bool
	// OtherLibC is the C library of a file that is skipped because programs here run on another.
	OtherLibC LibC

	Needs       []*Need
	before      runpath.List
	After       runpath.List
	tag         elf.DynTag // afterwards
	Interpreter string     // afterwards, "" if it stays
	note        string     // afterwards: the description of the resolution note
	// NoLoader says why a program will not start here with its new interpreter: "does not exist"; "" if it will.
	NoLoader string
	// KeptRPath is what would not be found if the file had a DT_RUNPATH; nil for nothing.
	KeptRPath *Loss
	// Set is the run path that the needs ask for; nil if they ask for none, so that the file keeps its own.
	Set      runpath.List
	Dropped  []string // entries that Minimal took out
	Lost     []string // entries of the file that Repair did not keep
	Notes    []string // what the reader may want to know
	Warnings []string
	// Conflicts are warnings of files that do not work in one process; each is told once for a name, in one plan.
	Conflicts []string
	lacks     []Lack // of what was found for it, or of what that loads
	Err       error
	// Worse is what could be loaded in a build with the libraries that nixpkgs' program takes, and cannot be now. The
	// file is edited all the same, and the run fails.
	Worse error
	// [Index.Change] adds what the loader would do other than planned, and the result of the edit.
	Surprises []string
	Result    Result
	// Opens are the directories added for what the file opens by name.
	Opens []Opened

	changes bool
	stays   bool // the run path, and its tag
	mapped  bool // Settings.Map has added or removed entries
	in      *Interpreter
	opener  string // the interpreter of the program that opens it, of a library; "" for the usual one
}

// Lack is a file outside the tree that lacks libraries, so that what loads it fails.
type Lack struct {
	name, path string // what was found, which is the file, or loads it
	by         string // the file
	names      []string
}

func (l *Lack) String() string {
	what := "itself lacks " + strings.Join(l.names, ", ")
	if l.path != l.by {
		what = l.by + ", which it loads, lacks " + strings.Join(l.names, ", ")
	}
	return fmt.Sprintf("%s was found, but %s: %s", l.name, what, remedy.Quote("runpath", "explain", l.path))
}

// Opened is a directory outside the tree with libraries that a file opens by name.
type Opened struct{ Dir, Why string }

// stands reports whether the plan will be carried out: the file is not skipped, and has no error.
func (p *Plan) stands() bool { return p.Skip == "" && p.Err == nil }

// Changes reports whether the file is not yet as planned.
func (p *Plan) Changes() bool { return p.changes }

func (p *Plan) differs() bool {
	o := p.Object
	if !p.stands() {
		return false
	}
	if p.Interpreter != "" && p.Interpreter != o.Interp || p.note != o.Description {
		return true
	}
	if p.stays {
		return false
	}
	if len(p.After) == 0 {
		return o.List != ""
	}
	return o.Tag != p.tag || o.Shadow || !slices.Equal(p.After, p.before) && p.After.String() != o.List
}

// Resolver makes plans for the files of an index.
type Resolver struct {
	ix *Index
	s  Settings

	interpreters []Interpreter
	first, last  []string // RuntimeDependencies and AppendRunpaths, as entries
	ignore       []pattern
	accepted     []string                   // names that are worse than with nixpkgs' program, and ignored
	again        bool                       // see written
	today        *today                     // nil in a build with interpreters, where nothing of the host counts
	deep         func() map[string][]string // Sources.deep
	libC         LibC                       // the host's, without interpreters
	openers      sync.Map                   // of Settings.Opener, by path, what each has loaded by name; see opener.go
	newer        sync.Map                   // by opener and candidate, what [Resolver.tooNew] says
}

// NewResolver reads the interpreters.
func NewResolver(ix *Index, s Settings) (*Resolver, error) {
	r := &Resolver{ix: ix, s: s, deep: sync.OnceValue(ix.sources.deep), first: clean(s.RuntimeDependencies),
		last: clean(s.AppendRunpaths)}
	for _, in := range s.Interpreters {
		real, err := regular.Real(in.Path)
		if err != nil {
			return nil, fmt.Errorf("interpreter %s: %w", in.Path, err)
		}
		if in.object = ix.file(real); in.object == nil || in.object.err != nil {
			return nil, fmt.Errorf("interpreter %s is not a dynamic loader", in.Path)
		}
		if ld := ix.loader.Interpreter(real, in.object.abi); ld.Why != "" {
			return nil, fmt.Errorf("interpreter %s %s", in.Path, ld.Why)
		} else if ld.Becomes != "" {
			return nil, fmt.Errorf("interpreter %s is nix-ld: name the loader that it becomes, %s", in.Path, ld.Becomes)
		}
		if in.LibC == "" {
			in.LibC = path.Dir(real)
		}
		in.dir, in.libC = ix.dir(in.LibC), libCOfInterpreter(in.Path)
		r.interpreters = append(r.interpreters, in)
	}
	for _, p := range s.Ignore {
		r.ignore = append(r.ignore, newPattern(p))
	}
	if s.Mode.ByHand() || len(s.Interpreters) == 0 {
		l := ix.loader
		if s.Tag == elf.DT_RUNPATH || s.Map != nil && s.Mode != Repair {
			l = ix.asRunPaths()
		}
		r.today = newToday(ix, l)
		if len(s.Interpreters) == 0 {
			r.libC = ix.cLibrary()
		}
	}
	return r, nil
}

// ResolveAll makes the plans for the files of the index, in their order, up to jobs at a time.
func (r *Resolver) ResolveAll(jobs int) []*Plan {
	plans := make([]*Plan, len(r.ix.Files))
	several(len(plans), jobs, func(i int) {
		plans[i] = r.look(r.ix.Files[i])
		r.propose(plans[i])
	})
	r.loop(plans, jobs, r.written(plans))
	r.keepRPath(plans)
	for _, p := range plans {
		r.remark(p)
		if o := p.Object; p.stands() && o.program() {
			p.NoLoader = r.ix.loader.Interpreter(p.State().Interpreter, o.abi).Why
		}
	}
	return plans
}

// remark says which choices the reader may not expect.
func (r *Resolver) remark(p *Plan) {
	var warnings []string
	for _, l := range p.lacks {
		p.Warnings = append(p.Warnings, l.String())
	}
	for _, n := range p.Needs {
		if n.Outcome != Found {
			continue
		}
		for _, reject := range n.Rejected {
			if reject.own && !n.Candidate.own {
				warnings = append(warnings, fmt.Sprintf("%s: the package's own %s %s; %s is used instead", n.Name, reject.Path,
					reject.Why, n.Candidate.Path))
			}
		}
		if n.Candidate.level == wheelLevel {
			p.Notes = append(p.Notes, fmt.Sprintf("%s is found in a wheel: %s", n.Name, n.Candidate.Path))
		}
		if r.elsewhere(p.Object, n.Candidate) && (r.s.Loaded == nil || !r.s.Loaded(p.Object.Real, n.Name)) {
			warnings = append(warnings, fmt.Sprintf("%s is found in another package only: %s", n.Name, n.Candidate.Path))
		}
	}
	p.Warnings = append(warnings, p.Warnings...)
}

// pin gives a file an entry for what it finds today, and reports whether it finds it.
func (r *Resolver) pin(n *Need) bool {
	c, ok := r.ix.candidate(r.ix.dir(path.Dir(n.where)), path.Base(n.where), -1)
	if ok {
		n.Outcome, n.Candidate, n.inherited = Found, c, false
	}
	return ok
}

// several calls do for 0 to n-1, up to jobs at a time.
func several(n, jobs int, do func(i int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(max(jobs, 1), n) {
		workers.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				do(int(i - 1))
			}
		})
	}
	workers.Wait()
}

// UsualInterpreter is [loader.Loader.UsualInterpreter] for programs like the plan's.
func (r *Resolver) UsualInterpreter(p *Plan) string { return r.ix.usualInterpreter(p.Object) }

// skipMalformed skips a file, with a warning, if an error from reading or editing it says that it contradicts itself.
// It reports whether that is so.
func (p *Plan) skipMalformed(err error) bool {
	if !malformed(err) {
		return false
	}
	p.Skip, p.SkipWarn = "it is malformed: "+err.Error(), true
	return true
}

// look finds what one file of the index needs. Several goroutines may call it.
func (r *Resolver) look(o *Object) *Plan {
	if o.SameAs != "" {
		return &Plan{Object: o, Skip: "the same file as " + o.SameAs}
	}
	p := &Plan{Object: o, before: runpath.Parse(o.List), tag: o.Tag}
	p.After = p.before
	switch {
	case p.skipMalformed(o.err):
		return p
	case o.err != nil:
		p.Err = o.err
		return p
	case o.skipReason != "":
		p.Skip = "it is " + strings.TrimPrefix(string(o.skipReason), "it is ")
		if o.skipReason == elfimage.NoDynamic {
			p.Skip = "it has " + string(o.skipReason)
		}
		return p
	}
	if p.in = r.interpreter(p); p.Skip != "" {
		return p
	}
	if p.in != nil && o.program() && !r.s.KeepInterpreter {
		p.Interpreter = p.in.Path
	}
	r.needs(p)
	return p
}

// propose makes the plan of a file, from the first candidate for each need that is not refused and the run path that
// leads to them.
func (r *Resolver) propose(p *Plan) {
	if p.Skip != "" || p.Object.err != nil {
		return
	}
	p.Err, p.Warnings, p.Conflicts = nil, nil, nil
	for _, n := range p.Needs {
		*n = Need{names: n.names, Cause: n.Cause, priority: n.priority, refused: n.refused, tried: n.tried}
		r.meet(p, n)
		if n.Outcome == Missing {
			r.excuse(n)
		}
	}
	if r.list(p); p.Err != nil && r.untangle(p) {
		r.list(p)
	}
	r.asWritten(p)
	if p.Err == nil {
		p.Err = r.temporary(p)
	}
	switch p.note = p.Object.Description; {
	case p.Err != nil:
	case r.s.note != nil:
		p.note = r.s.note(p.Object, p.After)
	case p.differs():
		p.note = ""
	}
	p.changes = p.differs()
}

// written reports whether a build's run has been over the tree before. Then every file is as proposed, if its own run
// path comes first, and that run's choices for files that go together stay.
func (r *Resolver) written(plans []*Plan) bool {
	right := func(p *Plan) bool { return p.Skip != "" || p.Err == nil && !p.Changes() }
	r.again = r.s.Mode != Repair
	for i := 0; r.again && i < len(plans); i++ {
		if !right(plans[i]) {
			r.propose(plans[i])
			r.again = right(plans[i])
		}
	}
	if r.again || r.s.Mode == Repair {
		return r.again
	}
	for _, p := range plans {
		if p.Object.program() {
			r.propose(p)
		}
	}
	return false
}

// asWritten keeps a file's run path if a run has written it, or would: it leads to a candidate for each need, and to
// nothing else. So a second run in a build writes nothing, even if the first one's run paths have made new
// candidates.
func (r *Resolver) asWritten(p *Plan) {
	right := func() bool { return p.Err == nil && slices.Equal(p.After, p.before) }
	if r.s.Mode == Repair || p.Object.program() && !r.again || len(p.before) == 0 || right() {
		return
	}
	proposed, had := *p, map[*Need]Need{}
	entries := r.entries(p.Object, p.before)
	for _, n := range p.Needs {
		if had[n] = *n; n.Outcome != Found {
			continue
		}
		name := path.Base(n.Name)
		at := slices.IndexFunc(entries, func(e entry) bool { return r.ix.takesIn(p.Object, e, name) != nil })
		if at < 0 {
			continue
		}
		for c := range r.candidates(p, name, everywhere) {
			if c.object == r.ix.takesIn(p.Object, entries[at], name) && r.refuseFor(p, n, name, c) == "" {
				n.Candidate = c
			}
		}
	}
	p.Err, p.Warnings, p.Conflicts = nil, nil, nil
	if r.list(p); !right() {
		for n, was := range had {
			*n = was
		}
		*p = proposed
	}
}

// interpreter returns the interpreter for a file's machine; nil if programs keep theirs.
func (r *Resolver) interpreter(p *Plan) *Interpreter {
	o := p.Object
	if len(r.interpreters) == 0 {
		p.opener = r.openedBy(o)
		if r.s.Machines != nil && !slices.Contains(r.s.Machines, o.abi.Machine) {
			p.Skip = fmt.Sprintf("its architecture (%s) is not this machine's", arch(o))
		} else if !compatible(elf.ELFOSABI_LINUX, o.ELF.OSABI) {
			p.Skip = fmt.Sprintf("its OS ABI (%v) is not Linux's", o.ELF.OSABI)
		} else if r.libC != UnknownLibC && o.LibC != UnknownLibC && o.LibC != r.libC {
			p.Skip, p.OtherLibC = fmt.Sprintf("it was linked against %s, and programs here run on %s", o.LibC, r.libC), o.LibC
		}
		return nil
	}
	why := ""
	for i := range r.interpreters {
		in := &r.interpreters[i]
		have := in.object
		switch {
		case have.abi.Refuses(o.abi) != "":
			why = cmp.Or(why, fmt.Sprintf("its architecture (%s) differs from target (%s)", arch(o), arch(have)))
		case !compatible(have.ELF.OSABI, o.ELF.OSABI) || o.ELF.OSABI == elf.OSABI(255):
			why = cmp.Or(why, fmt.Sprintf("its OS ABI (%v) is not compatible with target (%v)", o.ELF.OSABI, have.ELF.OSABI))
		case o.LibC != UnknownLibC && in.libC != UnknownLibC && o.LibC != in.libC:
			why, p.SkipWarn = fmt.Sprintf("it was linked against %s, and the C library of the target is %s", o.LibC,
				in.libC), true
		default:
			p.SkipWarn = false
			return in
		}
	}
	p.Skip = why
	return nil
}

func arch(o *Object) string {
	bits := 32
	if o.abi.Class == elf.ELFCLASS64 {
		bits = 64
	}
	return fmt.Sprintf("%s, %d bits", strings.TrimPrefix(o.abi.Machine.String(), "EM_"), bits)
}

func (r *Resolver) needs(p *Plan) {
	o := p.Object
	for _, name := range o.Needed {
		p.Needs = append(p.Needs, &Need{names: []string{name}, Cause: loader.Needed, priority: Required})
	}
	for _, note := range o.notes {
		if len(note.Sonames) == 0 {
			continue
		}
		n := &Need{names: note.Sonames, Cause: loader.DlopenNote, priority: Recommended}
		if priority, ok := ParsePriority(note.Priority); ok {
			n.priority = priority
		}
		p.Needs = append(p.Needs, n)
	}
	if r.s.Dlopen {
		for _, name := range o.literals {
			if driver.NeedsDriver(name) && !slices.ContainsFunc(p.Needs,
				func(n *Need) bool { return slices.Contains(n.names, name) }) {
				p.Needs = append(p.Needs, &Need{names: []string{name}, Cause: loader.DlopenString, priority: Suggested})
			}
		}
	}
}

// meet looks for what a need asks for.
func (r *Resolver) meet(p *Plan, n *Need) {
	in := p.in
	for _, name := range n.names {
		n.Name = name
		libC, why := r.inLibC(p, name)
		switch {
		case strings.HasPrefix(name, "/"):
			if st, err := os.Stat(name); err == nil && st.Mode().IsRegular() {
				n.Outcome = Absolute
				return
			}
		case libC && !r.s.KeepLibC:
			if why != nil && n.Cause == loader.Needed {
				n.Outcome, n.Rejected = Missing, append(n.Rejected, *why)
				return
			}
			n.Outcome = InLibC
			if (in != nil || p.opener != "") && r.s.Mode == Repair && n.Cause == loader.Needed {
				r.besideInterpreter(p, n, name)
			}
			return
		case in == nil && r.today != nil && files.OfCLibrary(name) && !r.s.KeepLibC:
			// Its loader works only with its own C library.
			if n.Outcome = Missing; !r.besideInterpreter(p, n, name) && why != nil {
				n.Rejected = append(n.Rejected, *why)
			}
			return
		}
		ofDriver := r.s.Driver && driver.Provides(path.Base(name))
		if r.s.Mode == Repair && !ofDriver && !(libC && r.s.KeepLibC) && r.findsToday(p, n, name) {
			return
		}
		far := everywhere
		if ofDriver {
			far = inTree
		}
		if c, ok := r.choose(p, n, path.Base(name), far); ok {
			n.Outcome, n.Candidate = Found, c
			return
		}
		if ofDriver {
			n.Outcome, n.Rejected = ByDriver, nil
			return
		}
		if libC {
			n.Outcome = InLibC
			return
		}
		if in == nil && r.s.Mode != Repair && r.findsToday(p, n, name) {
			return
		}
	}
	n.Outcome, n.Name = Missing, ""
	if n.Cause == loader.DlopenString || n.Cause == loader.DlopenNote && n.priority < r.s.EnforcePriority {
		n.Outcome = Optional
	}
}

// findsToday reports whether the loader finds a name for a file as it is.
func (r *Resolver) findsToday(p *Plan, n *Need, name string) bool {
	if r.today == nil || n.Cause != loader.Needed {
		return false
	}
	f := r.today.find(p.Object, p.runsOn(), name)
	switch {
	case f.path == "":
		return false
	case r.stubAt(f.path):
		n.Rejected = append(n.Rejected, Rejection{Path: f.path, Why: "is a stub, for linking only"})
		return false
	}
	n.Outcome, n.where, n.inherited = BySystem, f.path, f.inherited
	if lib := r.taken(n); lib != nil && n.refused[lib] != "" {
		why := n.refused[lib]
		n.Rejected = append(n.Rejected, Rejection{Path: f.path, Why: why})
		return false
	}
	return !f.inherited || n.refused[nil] == "" || r.pin(n)
}

// runsOn is the interpreter that the file will have, or that of the programs that load it;
// "" for the usual one.
func (p *Plan) runsOn() string {
	switch {
	case p.Object.program():
		return p.State().Interpreter
	case p.in != nil:
		return p.in.Path
	}
	return p.opener
}

// stubAt reports whether a library is in a stub directory, or leads into one.
func (r *Resolver) stubAt(library string) bool {
	stubs := r.ix.sources.Stubs
	real, err := regular.Real(library)
	return stubs.Contains(path.Dir(library)) || err == nil && stubs.Contains(path.Dir(real))
}

// inLibC reports whether a name belongs to the C library that the file runs on, and which of its files does not work.
func (r *Resolver) inLibC(p *Plan, name string) (ok bool, why *Rejection) {
	o, in := p.Object, p.in
	if in == nil {
		if !files.OfCLibrary(name) || r.today == nil {
			return files.OfCLibrary(name), nil
		}
		f := r.today.find(o, p.opener, name)
		if !o.program() {
			return true, f.rejected
		}
		// If its interpreter is not here, the file has a C library where the interpreter is.
		return r.ix.loader.Interpreter(o.Interp, o.abi).Why != "" || f.path != "", f.rejected
	}
	if in.libC == Musl && loader.MuslItself(name) {
		return true, nil
	}
	if strings.Contains(name, "/") || !in.dir.has(name) {
		return false, nil
	}
	lib := r.ix.open(in.dir, name)
	if lib == nil {
		return false, nil // a linker script, say
	}
	if lacks := lib.Lacks(o.File, name); len(lacks) > 0 {
		return true, &Rejection{Path: in.LibC + "/" + name, Why: lacksVersions(lacks)}
	}
	return true, nil
}

// besideInterpreter takes one of the C library's own names from the interpreter's directory, if the interpreter does
// not search that. A loader that was moved does not search its own directory, and works with no other C library.
func (r *Resolver) besideInterpreter(p *Plan, n *Need, name string) bool {
	real, err := regular.Real(p.runsOn())
	if err != nil {
		return false
	}
	c, ok := r.ix.candidate(r.ix.dir(path.Dir(real)), name, -1)
	if !ok || sameFile(r.today.find(p.Object, p.runsOn(), name).path, c.object.Real) {
		return false
	}
	if why := r.refuse(p, name, c); why != "" {
		n.Rejected = append(n.Rejected, Rejection{Path: c.Path, Why: why})
		return false
	}
	n.Outcome, n.Candidate = Found, c
	return true
}

// reach says how far candidates are looked for.
type reach int

const (
	everywhere reach = iota
	inTree
)

// choose returns the candidate that the file should load.
func (r *Resolver) choose(p *Plan, n *Need, name string, far reach) (Candidate, bool) {
	for c := range r.candidates(p, name, far) {
		why := r.refuseFor(p, n, name, c)
		if why == "" {
			return c, true
		}
		n.Rejected = append(n.Rejected, Rejection{Path: c.Path, Why: why, own: c.own})
	}
	return Candidate{}, false
}

// candidates are the files of a name, in a file's order of preference.
func (r *Resolver) candidates(p *Plan, name string, far reach) iter.Seq[Candidate] {
	return func(yield func(Candidate) bool) {
		var seen []*Object
		var later []Candidate
		for level := 0; ; level++ {
			dirs, more := r.ix.holding(name, level)
			var next []Candidate
			for _, d := range dirs {
				if c, ok := r.ix.candidate(d, name, level); ok && !slices.Contains(seen, c.object) {
					seen, next = append(seen, c.object), append(next, c)
				}
			}
			next = r.prefer(p.Object, next)
			if level == 0 && r.s.Mode == Repair {
				near := slices.DeleteFunc(slices.Clone(next), func(c Candidate) bool { return r.elsewhere(p.Object, c) })
				later = slices.DeleteFunc(slices.Clone(next), func(c Candidate) bool { return !r.elsewhere(p.Object, c) })
				next = near
			}
			if level == 1 && far == everywhere {
				next = append(r.fromOtherWheels(p.Object, name), next...)
			}
			last := !more || far == inTree
			if last {
				next = append(next, later...)
			}
			for _, c := range next {
				if !yield(c) {
					return
				}
			}
			if last {
				return
			}
		}
	}
}

// refuseFor is refuse for a need, some of whose candidates do not work in a process.
func (r *Resolver) refuseFor(p *Plan, n *Need, name string, c Candidate) string {
	return cmp.Or(r.refuse(p, name, c), n.refused[c.object])
}

// elsewhere reports whether a candidate is in another package of the tree than the file.
func (r *Resolver) elsewhere(o *Object, c Candidate) bool {
	return r.s.Mode == Repair && c.own && packageOf(o.Real) != packageOf(c.object.Real)
}

// packageOf is the package of a file that a package manager has installed: node_modules/NAME,
// node_modules/@SCOPE/NAME, or site-packages/NAME with NAME.libs, where auditwheel puts a wheel's libraries. All
// other files are one package, "".
func packageOf(file string) string {
	parts := strings.Split(file, "/")
	for i := len(parts) - 2; i >= 0; i-- {
		switch next := parts[i+1]; parts[i] {
		case "node_modules":
			if strings.HasPrefix(next, "@") && i+2 < len(parts) {
				next += "/" + parts[i+2]
			}
			return strings.Join(parts[:i+1], "/") + "/" + next
		case "site-packages", "dist-packages":
			return strings.Join(parts[:i+1], "/") + "/" + strings.TrimSuffix(next, ".libs")
		}
	}
	return ""
}

// prefer sorts the tree's candidates by one file's preference: those that its own run path leads to, then the one
// beside it.
func (r *Resolver) prefer(o *Object, all []Candidate) []Candidate {
	if len(all) < 2 || !all[0].own {
		return all
	}
	var dirs []string
	for _, e := range runpath.Parse(o.List) {
		if dir, ok := expand(o, e); ok {
			dirs = append(dirs, r.ix.dir(dir).real)
		}
	}
	dirs = append(dirs, path.Dir(o.Real))
	rank := func(c Candidate) int {
		for i, d := range dirs {
			if c.own && r.ix.dir(path.Dir(c.Path)).real == d {
				return i
			}
		}
		return len(dirs)
	}
	out := slices.Clone(all)
	slices.SortStableFunc(out, func(a, b Candidate) int { return rank(a) - rank(b) })
	return out
}

// expand returns the directory that an entry of a file's run path names, if that does not depend on the loader.
func expand(o *Object, entry string) (string, bool) {
	dirs := []string{entry}
	if strings.Contains(entry, "$") {
		dirs = runpath.Directories(entry, path.Dir(o.Real))
	}
	if len(dirs) != 1 || !strings.HasPrefix(dirs[0], "/") {
		return "", false
	}
	return strings.TrimSuffix(dirs[0], "/"), true
}

// refuse says why the file could not load a candidate, or "".
func (r *Resolver) refuse(p *Plan, name string, c Candidate) string {
	o, lib := p.Object, c.object
	if why := lib.usable(); why != "" {
		return why
	}
	if why := o.abi.Refuses(lib.abi); lib.abi.Class != o.abi.Class {
		return "has the " + why
	} else if why != "" {
		return why
	}
	if !compatible(o.ELF.OSABI, lib.ELF.OSABI) {
		return fmt.Sprintf("is for another OS ABI: %v", lib.ELF.OSABI)
	}
	if stubs := r.ix.sources.Stubs; stubs.Contains(c.Dir) || stubs.Contains(path.Dir(c.Path)) ||
		stubs.Contains(path.Dir(lib.Real)) {
		return "is a stub, for linking only"
	}
	mine := o.LibC
	if p.in != nil && mine == UnknownLibC {
		mine = p.in.libC
	}
	if mine != UnknownLibC && lib.LibC != UnknownLibC && lib.LibC != mine {
		return fmt.Sprintf("was linked against %s, not %s", lib.LibC, mine)
	}
	if lacks := lib.Lacks(o.File, name); len(lacks) > 0 {
		return lacksVersions(lacks)
	}
	if in := r.ix.loader.Interpreter(p.runsOn(), o.abi); in.Kind == loader.GLibc {
		if symbol := loader.AssertsFor(lib.File, o.File, name, in.Version); symbol != "" {
			return fmt.Sprintf("has no symbol versions, and glibc %v fails where it binds %s to it", in.Version, symbol)
		}
	}
	if r.s.Opener != nil && !o.program() {
		return r.tooNew(r.s.Opener(o.Real), lib)
	}
	return ""
}

// ignored reports whether a library may be missing.
func (r *Resolver) ignored(name string) bool {
	return slices.ContainsFunc(r.ignore, func(p pattern) bool { return p.of(name) })
}

// in is the directory of the C library on which a file will run, "" if that is not given.
func (r *Resolver) in(p *Plan) string {
	if p == nil || p.in == nil {
		return ""
	}
	return p.in.dir.real
}

// excuse looks for the pattern that makes a missing library ignored.
func (r *Resolver) excuse(n *Need) {
	if i := slices.IndexFunc(r.ignore, func(p pattern) bool { return slices.ContainsFunc(n.names, p.of) }); i >= 0 {
		n.Outcome, n.Pattern = Ignored, r.ignore[i].text
	}
}

// UnusedPatterns returns the patterns that made nothing ignored, each with the reason, in the order of
// Settings.Ignore. One for a driver-provided library does no harm.
func (r *Resolver) UnusedPatterns(plans []*Plan) []string {
	used, named := map[string]bool{}, map[string]bool{}
	for _, p := range plans {
		for _, n := range p.Needs {
			if n.Outcome == Ignored {
				used[n.Pattern] = true
			}
			for _, name := range n.names {
				if named[path.Base(name)] = true; name == n.Name {
					break
				}
			}
		}
	}
	var out []string
	for _, p := range r.ignore {
		var names []string
		for _, name := range slices.Sorted(maps.Keys(named)) {
			if p.match(name) {
				names = append(names, name)
			}
		}
		switch {
		case used[p.text], driver.Provides(p.text), slices.ContainsFunc(r.accepted, p.match):
		case len(names) == 0:
			out = append(out, fmt.Sprintf("the ignore pattern %q matches no library that is needed", p.text))
		case len(names) > 3:
			out = append(out, fmt.Sprintf("the ignore pattern %q ignores nothing: all %d libraries that it matches are there",
				p.text, len(names)))
		default:
			out = append(out, fmt.Sprintf("the ignore pattern %q ignores nothing: %s is there", p.text,
				strings.Join(names, ", ")))
		}
	}
	return out
}
