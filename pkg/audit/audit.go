package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sort"
	"strings"

	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/process"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/scripts/syntax"
	"cuda-runpath/pkg/starts"
)

// Options say what an audit examines.
type Options struct {
	explain.Options
	Loads bool // keep what each file loads in its report
	// Imported says what an import of a package of Python's reaches: what nothing reaches is no error; nil in a build.
	Imported func() *starts.Imported
	Openers  starts.Openers // the interpreters of Python that open libraries; none in a build
	Noted    bool           // keep there what its resolution note alone names, and ask the store what entries cost: for --closure
}

// An Audit examines files that belong together: what one of them lacks on its own
// may be there in the load of another. Examine may be called concurrently.
type Audit struct {
	*explain.System
	loads, noted bool
	imported     func() *starts.Imported
	openers      starts.Openers
	known        *knowledge
	modules      starts.Modules
}

// New starts an audit.
func New(l *loader.Loader, o Options) *Audit {
	if o.Noted && o.Saved == nil {
		saved := Saved()
		o.Saved = func(pkg, ref string) (string, bool) {
			bytes, ok := saved(pkg, ref)
			return size(bytes), ok
		}
	}
	if o.Imported == nil {
		o.Imported = func() *starts.Imported { return nil }
	}
	o.Symbols = true
	return &Audit{System: explain.New(l, o.Options), loads: o.Loads, noted: o.Noted, imported: o.Imported,
		openers: o.Openers, known: newKnowledge()}
}

// Pending is an examined file, before the others of the audit are known.
type Pending struct {
	path     string            // until it is examined
	link     string            // the file that it is a hard link to, which is examined by that name
	found    []finding.Finding // before it is examined
	report   *explain.Report
	subjects []*explain.Case // its starts of which something is left to report
}

// NewPending takes up a report that needs no examination.
func NewPending(r *explain.Report) *Pending { return &Pending{report: r} }

// Take takes up an open file that is to be examined: its descriptor, or -1, is read from now alone.
func (u *Audit) Take(path string, fd int) *Pending {
	u.Loader.Take(path, fd)
	return &Pending{path: path, found: u.Wrapper(path)}
}

// TakeLink takes up another name of a file, which is another start, or library, where $ORIGIN counts in its run path.
func (u *Audit) TakeLink(path, first string) *Pending { return &Pending{path: path, link: first} }

// Wrapper takes note of what a file starts in its own place, if it is a wrapper, and returns what is wrong with that.
// It may be called concurrently.
func (u *Audit) Wrapper(file string) (found []finding.Finding) {
	start := u.modules.Behind(u.Loader, file, starts.Wrappers)
	if len(start.Via) == 0 {
		return nil
	}
	if start.Script != "" {
		return u.python(start)
	}
	at, _, err := u.Loader.Files().Resolve(start.File)
	if err == nil {
		u.known.mu.Lock()
		defer u.known.mu.Unlock()
		u.known.starts[at] = append(u.known.starts[at], start)
	} else if errors.Is(err, fs.ErrNotExist) && start.Sure && len(start.Via) == 1 {
		f := finding.Finding{ID: finding.ProgramAbsent, Message: fmt.Sprintf("it starts %s, which does not exist",
			start.File),
			Remedy: remedy.Do("install that program, or wrap the one that is there")}
		if !u.Loader.Files().IsDir(path.Dir(start.File)) { // it may be for another place than it lies in
			f.Severity = finding.Warning
		}
		found = append(found, f.Strictly(u.Strict))
	}
	return found
}

// python takes note of what is in the process of a script of Python's, and returns what is wrong with that as a whole:
// its modules have reports of their own.
func (u *Audit) python(start process.Start) (found []finding.Finding) {
	state, err := start.Begin(u.Loader)
	if err != nil || state.Role == loader.Static || len(start.Opens) == 0 {
		return nil
	}
	s := u.Case(state)
	s.Follow()
	u.known.holds(start.Script, s)
	return slices.DeleteFunc(slices.Clone(s.Open()), func(f finding.Finding) bool {
		return f.ID != finding.TwoMajors && f.ID != finding.UndefinedSymbol
	})
}

// Script examines the text of a script at a path, whose beginning is head, also as a wrapper. It returns nil where there
// is nothing to report.
func (u *Audit) Script(p string, head []byte, text string, lang syntax.Language) *explain.Report {
	r := u.text(p, text, lang)
	if !bytes.HasPrefix(head, []byte("#!")) {
		return r
	}
	found := u.Wrapper(p)
	if r == nil && found != nil {
		r = &explain.Report{Path: p, Outcome: explain.Checked}
	}
	if r != nil {
		r.Findings = append(r.Findings, found...)
	}
	return r
}

// starts returns the starts of a file: those by wrappers where there are any, sorted, else its own.
func (u *Audit) starts(path string) []process.Start {
	at, _, err := u.Loader.Files().Resolve(u.Loader.Absolute(path))
	if err == nil && len(u.known.starts[at]) > 0 {
		all := u.outermost(u.known.starts[at])
		sort.Slice(all, func(i, j int) bool { return strings.Join(all[i].Via, " ") < strings.Join(all[j].Via, " ") })
		return all[:min(len(all), maxStarts)]
	}
	return []process.Start{{Environment: u.Loader.Environment(), Interpreter: u.openers.Loader(u.Loader, at)}}
}

// outermost returns those of some starts of a program whose wrapper no wrapper of the others starts.
func (u *Audit) outermost(starts []process.Start) []process.Start {
	real := func(p string) string {
		at, _, _ := u.Loader.Files().Resolve(u.Loader.Absolute(p))
		return at
	}
	inner := map[string]bool{}
	for _, start := range starts {
		for _, p := range start.Via[1:] {
			inner[real(p)] = true
		}
	}
	all := slices.DeleteFunc(slices.Clone(starts), func(start process.Start) bool { return inner[real(start.Via[0])] })
	if len(all) == 0 { // they start each other
		return slices.Clone(starts)
	}
	return all
}

// maxStarts bounds the wrappers of one program that are looked at.
const maxStarts = 10

// Examine examines a file that was taken up, as far as that is possible without the others, and
// returns the number of findings so far.
func (u *Audit) Examine(p *Pending) int {
	if p.report != nil {
		return len(p.report.Findings)
	}
	path := p.path
	if f := u.Loader.Files().Open(u.Loader.Absolute(path)); p.link != "" &&
		!runpath.HasOrigin(f.List+" "+strings.Join(f.Needed, " ")) {
		p.report = explain.NewSkipped(path, "the same file as "+p.link)
		return 0
	}
	for i, start := range u.starts(path) {
		r := u.System.Examine(path, start, func(s *explain.Case, r *explain.Report) {
			settled := s.Settled()
			u.known.learn(path, s)
			// Only what is missing depends on the other files, and who loads the library: then, and only then, the
			// load is kept until all have been seen.
			if len(s.Open()) > 0 || slices.ContainsFunc(settled, func(f finding.Finding) bool { return ofProcess(s, &f) }) {
				p.subjects = append(p.subjects, s)
			} else {
				r.Findings = s.Tried(settled)
			}
			if u.noted {
				r.Noted = s.Noted()
			}
			if u.loads {
				r.Load = explain.Describe(s)
			}
		})
		if i == 0 {
			p.report = r
		} else {
			p.report.Findings = union(p.report.Findings, r.Findings)
		}
	}
	p.report.Findings = append(p.report.Findings, p.found...)
	if r := p.report; r.Outcome == explain.Failed {
		id, do := finding.Malformed, remedy.Do("the loader may still load it; restore the file if it is meant to work")
		if errors.As(r.Err, new(loader.Unreadable)) {
			id, do = finding.UnreadableFile, remedy.Do("run the audit again where the file can be read")
		}
		r.Findings = append(r.Findings, finding.Finding{ID: id, Message: r.Reason, Remedy: do}.Strictly(u.Strict))
	}
	return len(p.report.Findings)
}

// Finish completes the report of an examined file, once all others have been
// examined. The worst findings come first.
func (u *Audit) Finish(p *Pending) *explain.Report {
	for _, s := range p.subjects {
		open := u.unresolved(s) // which may give what is settled another remedy
		settled := slices.DeleteFunc(slices.Clone(s.Settled()), func(f finding.Finding) bool {
			return ofProcess(s, &f) && u.known.excused(s, &f)
		})
		p.report.Findings = union(p.report.Findings, s.Tried(append(settled, open...)))
	}
	p.subjects = nil
	if p.path != "" {
		u.unopened(p)
	}
	findings := p.report.Findings
	// sort, not slices: made for one more type, the functions of slices are 15 kB of program.
	sort.SliceStable(findings, func(i, j int) bool { return findings[i].Severity.Rank() > findings[j].Severity.Rank() })
	return p.report
}

// unopened reports what every process of a Python lacks into which the file is opened.
func (u *Audit) unopened(p *Pending) {
	file := u.Loader.Files().Open(u.Loader.Absolute(p.path)).Path
	why := u.imported().Fails(file)
	if why == "" {
		return
	}
	f := finding.Finding{ID: finding.LoadError, Message: "its Python cannot open it: " + why,
		Remedy: remedy.Do("take the library from the nixpkgs that the Python is from; or a newer Python")}
	if !u.imported().Reaches(file) {
		f.Severity, f.Message = finding.Warning, f.Message+unreached
	}
	p.report.Findings = append(p.report.Findings, f.Strictly(u.Strict))
}

// ofProcess reports whether a conclusion on a library is what a process that has it may settle: another file is there
// by then.
func ofProcess(s *explain.Case, f *finding.Finding) bool {
	return s.Role != loader.Program && f.File != "" && f.By != "" &&
		(f.ID == finding.LoadError || f.ID == finding.LibcMismatch || f.ID == finding.StubLoaded)
}

// union adds to findings those that are not among them.
func union(all, more []finding.Finding) []finding.Finding {
	for _, f := range more {
		if !slices.ContainsFunc(all, func(g finding.Finding) bool { return g.Same(&f) }) {
			all = append(all, f)
		}
	}
	return all
}
