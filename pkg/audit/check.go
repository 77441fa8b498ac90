package audit

import (
	"errors"
	"fmt"
	"path"
	"sync/atomic"

	"cuda-runpath/pkg/cli"
	"cuda-runpath/pkg/image"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/tree"
)

// FileReport is one element of "files" in the JSON document of a check.
type FileReport struct {
	cli.FileReport
	Findings []Finding `json:"findings"`
}

// Summary ends the JSON document of a check.
type Summary struct {
	Checked  int    `json:"checked"`
	Skipped  int    `json:"skipped"`
	Failed   int    `json:"failed"` // files that could not be examined
	Errors   int    `json:"errors"`
	Warnings int    `json:"warnings"`
	Notes    int    `json:"notes"`
	Accepted int    `json:"accepted,omitempty"` // findings that the baseline has
	Stopped  string `json:"stopped,omitempty"`
}

func (s *Summary) count(r *FileReport) {
	switch r.Action {
	case cli.Skipped:
		s.Skipped++
		return
	case cli.Failed:
		s.Failed++
	default:
		s.Checked++
	}
	for _, f := range r.Findings {
		switch {
		case f.Accepted:
			s.Accepted++
		case f.Severity == Error:
			s.Errors++
		case f.Severity == Warning:
			s.Warnings++
		default:
			s.Notes++
		}
	}
}

func (s *Summary) String() string {
	line := fmt.Sprintf("%s checked, %d skipped: %s, %s", plural(s.Checked, "file"), s.Skipped, plural(s.Errors, "error"), plural(s.Warnings, "warning"))
	if s.Accepted > 0 {
		line += fmt.Sprintf(", %d accepted by the baseline", s.Accepted)
	}
	if s.Failed > 0 {
		line += fmt.Sprintf("; %s could not be examined", plural(s.Failed, "file"))
	}
	return line
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Validate tells what is wrong with the options.
func (o *Options) Validate() error {
	for _, pattern := range o.Ignore {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return cli.Misusef("--ignore %q is no pattern", pattern)
		}
	}
	return nil
}

// Ambiguity examines one file as noRunpathAmbiguity does.
func (a *Auditor) Ambiguity(p string) *FileReport {
	return a.examine(p, func(s *subject) {
		s.safety()
		s.ambiguity()
	})
}

func (a *Auditor) examine(p string, look func(*subject)) *FileReport {
	r := &FileReport{FileReport: cli.FileReport{Path: p, Action: cli.Unchanged, Before: []string{}, After: []string{}}, Findings: []Finding{}}
	load, err := a.Loader.Load(p)
	var not *loader.NotLoadable
	switch {
	case errors.As(err, &not):
		r.Action, r.Reason = cli.Skipped, string(not.Reason)
		return r
	case err != nil:
		r.Action, r.Reason = cli.Failed, err.Error()
		return r
	case load.Static:
		r.Action, r.Reason = cli.Skipped, string(load.Main.File.ELF.LeftAlone())
		return r
	}
	if load.Main.File.Tag != 0 {
		r.Tag = load.Main.File.Tag.String()
	}
	if l := runpath.Parse(load.Main.File.List); l != nil {
		r.Before, r.After = l, l
	}
	s := a.subject(p, load)
	s.collectNames()
	look(s)
	if s.found != nil {
		r.Findings = s.found
	}
	return r
}

// Check runs noRunpathAmbiguity over the session's paths. It returns
// cli.ErrFailed where there is an error, or a file could not be examined.
func Check(s *cli.Session, a *Auditor) error {
	var doc *cli.Document
	if s.JSON {
		doc = cli.NewDocument(s.Stdout)
	}
	var sum Summary
	var notELF atomic.Int64
	err := tree.Walk(s.Context, s.Paths, tree.Options{Jobs: s.Jobs, FollowArguments: true}, func(f *tree.File) (*FileReport, bool) {
		r := &FileReport{FileReport: cli.FileReport{Path: f.Path, Action: cli.Skipped, Before: []string{}, After: []string{}}, Findings: []Finding{}}
		switch {
		case f.Err != nil:
			r.Action, r.Reason = cli.Failed, f.Err.Error()
		case !f.ELF():
			if notELF.Add(1); !s.JSON && !s.Verbose {
				return nil, false
			}
			r.Reason = string(image.NotELF)
		case f.SameAs != "":
			r.Reason = "the same file as " + f.SameAs
		default:
			r = a.Ambiguity(f.Path)
		}
		return r, true
	}, func(r *FileReport) {
		if r.Reason != string(image.NotELF) {
			sum.count(r)
		}
		logReport(s, r)
		if doc != nil {
			doc.File(r)
		}
	})
	sum.Skipped += int(notELF.Load())
	var stopped *tree.Stopped
	if errors.As(err, &stopped) {
		sum.Stopped = stopped.Error()
		s.Log.Error(stopped)
	}
	if doc != nil {
		if err := doc.Close(&sum); err != nil {
			return fmt.Errorf("writing the JSON document: %w", err)
		}
	} else if !s.Quiet {
		if _, err := fmt.Fprintln(s.Stdout, sum.String()); err != nil {
			return err
		}
	}
	if sum.Errors > 0 || sum.Failed > 0 || err != nil {
		return cli.ErrFailed
	}
	return nil
}

// logReport writes a line for each finding.
func logReport(s *cli.Session, r *FileReport) {
	log := s.Log.WithField("path", r.Path)
	switch r.Action {
	case cli.Skipped:
		log.Debug("left alone: " + r.Reason)
		return
	case cli.Failed:
		log.Error(r.Reason)
	}
	for _, f := range r.Findings {
		line := fmt.Sprintf("%s. To settle it: %s [%s]", cli.Printable(f.Message), cli.Printable(f.Remedy), f.ID)
		switch {
		case f.Accepted:
			log.Debug("accepted: " + line)
		case f.Severity == Error:
			log.Error("error: " + line)
		case f.Severity == Warning:
			log.Warn(line)
		default:
			log.Debug("note: " + line)
		}
	}
	if len(r.Findings) == 0 && r.Action != cli.Failed {
		log.Debug("nothing to report")
	}
}
