package audit

import (
	"errors"
	"slices"
	"sort"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/runpath"
)

// Ambiguity examines one file as noRunpathAmbiguity does.
func (a *Auditor) Ambiguity(p string) *Report {
	return a.examine(p, func(s *subject, _ *Report) {
		s.safety()
		s.ambiguity()
		s.byProcessor()
		s.loadedElsewhere()
		s.libc()
	})
}

func (a *Auditor) examine(p string, look func(*subject, *Report)) *Report {
	load, err := a.Loader.Load(p)
	var not *loader.NotLoadable
	switch {
	case errors.As(err, &not):
		return NewSkipped(p, string(not.Reason))
	case err != nil:
		return NewFailed(p, err)
	case load.Static:
		return NewSkipped(p, string(load.Main.File.ELF.SkipReason()))
	}
	r := &Report{Path: p, Outcome: Checked, Entries: runpath.Parse(load.Main.File.List)}
	if load.Main.File.Tag != 0 {
		r.Tag = load.Main.File.Tag.String()
	}
	s := a.subject(p, load)
	s.collectNames()
	look(s, r)
	r.Findings = s.found
	return r
}

// An Audit examines files that belong together: what one of them lacks on its own
// may be there in the load of another. Examine may be called concurrently.
type Audit struct {
	a     *Auditor
	known *knowledge
}

// Begin starts an audit.
func (a *Auditor) Begin() *Audit { return &Audit{a, newKnowledge()} }

// Pending is an examined file, before the others of the audit are known.
type Pending struct {
	path    string // until it is examined
	report  *Report
	subject *subject // nil where nothing is left to report
}

// NewPending takes up a report that needs no examination.
func NewPending(r *Report) *Pending { return &Pending{report: r} }

// Take takes up an open file that is to be examined: its descriptor, or -1, is read from now alone.
func (u *Audit) Take(path string, fd int) *Pending {
	u.a.Loader.Take(path, fd)
	return &Pending{path: path}
}

// Examine examines a file that was taken up, as far as that is possible without the others, and
// returns the number of findings so far.
func (u *Audit) Examine(p *Pending) int {
	if p.report != nil {
		return len(p.report.Findings)
	}
	a, path := u.a, p.path
	p.report = a.examine(path, func(s *subject, r *Report) {
		s.all()
		u.known.learn(s)
		started := len(s.load.Objects)
		s.load.DlopenAll(func(o *loader.Object, l loader.Literal) bool {
			return o == s.load.Main && driver.Provides(l.Name)
		}, driver.Provides)
		s.driver(s.load.Objects[started:])
		// Only what is missing depends on the other files: then, and only then, the
		// load is kept until all have been seen.
		if s.lacks() {
			p.subject = s
		}
		if a.Noted {
			r.Noted = s.noted()
		}
		if a.Loads {
			r.Load = explain.Describe(s.load, a.Driver(s.load))
		}
	})
	if r := p.report; r.Outcome == Failed {
		id, do := explain.Malformed, remedy.Do("the loader may still load it; restore the file if it is meant to work")
		if errors.As(r.Err, new(loader.Unreadable)) {
			id, do = UnreadableFile, remedy.Do("run the audit again where the file can be read")
		}
		r.Findings = append(r.Findings, Finding{ID: id, Severity: rule(id).Severity, Message: r.Reason, Remedy: do})
	}
	return len(p.report.Findings)
}

// Finish completes the report of an examined file, once all others have been
// examined. The worst findings come first.
func (u *Audit) Finish(p *Pending) *Report {
	if s := p.subject; s != nil {
		s.unresolved(u.known)
		p.report.Findings = slices.Clip(s.found)
		p.subject = nil
	}
	findings := p.report.Findings
	// sort, not slices: made for one more type, the functions of slices are 15 kB of program.
	sort.SliceStable(findings, func(i, j int) bool { return findings[i].Severity.rank() > findings[j].Severity.rank() })
	return p.report
}
