package explain

import (
	"fmt"
	"slices"

	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/runpath"
)

// Outcome says how far the examination of a file came.
type Outcome string

// The outcomes.
const (
	Checked Outcome = "checked"
	Skipped Outcome = "skipped" // no loader loads it, or it was examined under another name
	Failed  Outcome = "failed"  // it could not be examined
	Empty   Outcome = "empty"   // a directory without an ELF file
)

// Report is what there is to say of one file.
type Report struct {
	Path     string
	Outcome  Outcome
	Reason   string       // why it was skipped or failed
	Err      error        // what Reason says, where it failed
	Tag      string       // DT_RUNPATH, DT_RPATH or ""
	Entries  runpath.List // of the run path; nil where there is none
	Findings []finding.Finding
	// Noted are the store paths that its resolution note names, and nothing else of it, where
	// an audit asks for them.
	Noted []string
	// Load is what the loader would load, where an audit asks for it.
	Load *File
}

// NewSkipped returns the report of a file that is not examined, and why.
func NewSkipped(path, reason string) *Report {
	return &Report{Path: path, Outcome: Skipped, Reason: reason}
}

// NewFailed returns the report of a file that cannot be examined.
func NewFailed(path string, err error) *Report {
	return &Report{Path: path, Outcome: Failed, Reason: err.Error(), Err: err}
}

// Ignore takes findings of some kinds out. A file that could not be examined for what is
// ignored counts as skipped.
func (r *Report) Ignore(ids []string) {
	had := len(r.Findings)
	r.Findings = slices.DeleteFunc(r.Findings, func(f finding.Finding) bool { return slices.Contains(ids, f.ID) })
	if had > 0 && len(r.Findings) == 0 && r.Outcome == Failed {
		r.Outcome = Skipped
	}
}

// Summary counts reports and their findings.
type Summary struct {
	Checked  int `json:"checked"`
	Skipped  int `json:"skipped"`
	Failed   int `json:"failed"` // files that could not be examined
	Errors   int `json:"errors"`
	Warnings int `json:"warnings"`
	Notes    int `json:"notes"`
	Accepted int `json:"accepted,omitempty"` // findings that the baseline has
	Gone     int `json:"gone,omitempty"`     // findings that the baseline has and no file any more
	// KeptByNotes is what resolution notes alone keep in the closure, where that is examined.
	KeptByNotes []Kept `json:"kept_by_notes,omitempty"`
	// Stopped says how far a run came that was interrupted.
	Stopped string `json:"stopped,omitempty"`
}

// Count adds a report.
func (s *Summary) Count(r *Report) {
	switch r.Outcome {
	case Skipped:
		s.Skipped++
		return
	case Failed:
		s.Failed++
	case Empty:
	default:
		s.Checked++
	}
	for _, f := range r.Findings {
		switch {
		case f.Accepted:
			s.Accepted++
		case f.Severity == finding.Error:
			s.Errors++
		case f.Severity == finding.Warning:
			s.Warnings++
		default:
			s.Notes++
		}
	}
}

// Bad reports whether the files do not pass the check.
func (s *Summary) Bad() bool { return s.Errors > 0 || s.Failed > 0 }

// Line is what ends a check: "2 files checked, 1 skipped: 0 errors, 3 warnings, 1 note (-v)".
// verbose says that the notes are shown.
func (s *Summary) Line(verbose bool) string {
	line := fmt.Sprintf("%s checked, %d skipped: %s, %s", remedy.Count(s.Checked, "file"), s.Skipped,
		remedy.Count(s.Errors, "error"), remedy.Count(s.Warnings, "warning"))
	if s.Notes > 0 {
		line += ", " + remedy.Count(s.Notes, "note")
		if !verbose {
			line += " (-v)"
		}
	}
	if s.Accepted > 0 {
		line += fmt.Sprintf(", %d accepted by the baseline", s.Accepted)
	}
	if s.Gone > 0 {
		line += fmt.Sprintf(", %d in the baseline no longer found", s.Gone)
	}
	if s.Failed > 0 {
		line += fmt.Sprintf("; %s could not be examined", remedy.Count(s.Failed, "file"))
	}
	return line
}

// Kept is a store path that nothing but resolution notes keeps in a closure.
type Kept struct {
	Object string   `json:"object"`
	Files  []string `json:"files"` // whose notes name it
	Bytes  int64    `json:"bytes"` // that the closure would lose without it
}
