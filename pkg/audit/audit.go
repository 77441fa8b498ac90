package audit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/cli"
	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/tree"
)

// Output says where the results go, beside the log.
type Output struct {
	SARIF, HTML    string // files to write; "" for none
	Baseline       string // file of accepted findings
	UpdateBaseline bool   // write it instead of reading it
}

// result is one audited file, while the audit goes on.
type result struct {
	report  *FileReport
	subject *subject
	missing []missing
	tree    *explain.File
}

// Run audits the session's paths: it reports everything that is wrong with the
// run path of each file. It returns cli.ErrFailed where there is an error that
// the baseline does not have, or a file could not be examined.
func Run(s *cli.Session, a *Auditor, o Output) error {
	accepted, err := readBaseline(o)
	if err != nil {
		return err
	}
	var done, found atomic.Int64
	stop := progress(s, &done, &found)
	ctx := newKnowledge()
	var results []*result
	var sum Summary
	err = tree.Walk(s.Context, s.Paths, tree.Options{Jobs: s.Jobs, FollowArguments: true}, func(f *tree.File) (*result, bool) {
		done.Add(1)
		if f.Err == nil && !f.ELF() {
			return nil, false
		}
		r := a.audit(f, ctx, o.HTML != "")
		found.Add(int64(len(r.report.Findings)))
		return r, true
	}, func(r *result) { results = append(results, r) })
	stop()
	sum.Skipped = int(done.Load()) - len(results)
	for _, r := range results {
		if r.subject != nil {
			r.subject.unresolved(r.missing, ctx)
			r.report.Findings = slices.Clip(r.subject.found)
			if r.report.Findings == nil {
				r.report.Findings = []Finding{}
			}
			r.subject = nil
		}
		slices.SortStableFunc(r.report.Findings, func(x, y Finding) int { return y.Severity.rank() - x.Severity.rank() })
		for i := range r.report.Findings {
			f := &r.report.Findings[i]
			f.Accepted = accepted[fingerprint(r.report.Path, f)]
		}
		sum.count(r.report)
	}
	var stopped *tree.Stopped
	if errors.As(err, &stopped) {
		sum.Stopped = stopped.Error()
		s.Log.Error(stopped)
	}
	if werr := write(s, o, results, &sum); werr != nil {
		return werr
	}
	if sum.Errors > 0 || sum.Failed > 0 || err != nil {
		return cli.ErrFailed
	}
	return nil
}

// audit examines one file, as far as that is possible without the others.
func (a *Auditor) audit(f *tree.File, ctx *knowledge, withTree bool) *result {
	r := &result{report: &FileReport{FileReport: cli.FileReport{Path: f.Path, Action: cli.Skipped, Before: []string{}, After: []string{}}, Findings: []Finding{}}}
	switch {
	case f.Err != nil:
		r.report.Action, r.report.Reason = cli.Failed, f.Err.Error()
		return r
	case f.SameAs != "":
		r.report.Reason = "the same file as " + f.SameAs
		return r
	}
	r.report = a.examine(f.Path, func(s *subject) {
		s.all()
		ctx.learn(s.load)
		if !s.load.Static {
			s.load.DlopenAll(func(o *loader.Object, l loader.Literal) bool {
				return o == s.load.Main && driver.Provides(l.Name)
			}, driver.Provides)
		}
		// Only what is missing depends on the other files: then, and only then, the
		// load is kept until all have been seen.
		if r.missing = s.missingNames(); len(r.missing) > 0 {
			r.subject = s
		}
		if withTree {
			r.tree = explain.Describe(f.Path, s.load, &explain.Layout{DriverLink: a.DriverLink, Compat: a.Compat, StubDirs: a.StubDirs})
		}
	})
	if r.report.Action == cli.Failed {
		r.report.Findings = append(r.report.Findings, Finding{ID: Malformed, Severity: rule(Malformed).Severity, Message: r.report.Reason,
			Remedy: "the loader may still load it; restore the file if it is meant to work"})
	}
	return r
}

func write(s *cli.Session, o Output, results []*result, sum *Summary) error {
	var doc *cli.Document
	if s.JSON {
		doc = cli.NewDocument(s.Stdout)
	}
	for _, r := range results {
		logReport(s, r.report)
		if doc != nil {
			doc.File(r.report)
		}
	}
	if doc != nil {
		if err := doc.Close(sum); err != nil {
			return fmt.Errorf("writing the JSON document: %w", err)
		}
	} else if !s.Quiet {
		if _, err := fmt.Fprintln(s.Stdout, sum.String()); err != nil {
			return err
		}
	}
	if o.UpdateBaseline {
		if err := save(o.Baseline, func(w io.Writer) error { return writeBaseline(w, results) }); err != nil {
			return err
		}
	}
	if o.SARIF != "" {
		if err := save(o.SARIF, func(w io.Writer) error { return writeSARIF(w, results) }); err != nil {
			return err
		}
	}
	if o.HTML != "" {
		if err := save(o.HTML, func(w io.Writer) error { return writeHTML(w, s.Paths, results, sum) }); err != nil {
			return err
		}
	}
	return nil
}

// save writes a file whole or not at all.
func save(name string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".audit-*")
	if err != nil {
		return err
	}
	err = write(f)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Chmod(f.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// progress shows how far the audit is, on a terminal, once it has taken a second.
func progress(s *cli.Session, done, found *atomic.Int64) (stop func()) {
	if s.Quiet {
		return func() {}
	}
	w, ok := s.Log.Out.(*os.File)
	if !ok {
		return func() {}
	}
	if _, err := unix.IoctlGetTermios(int(w.Fd()), unix.TCGETS); err != nil {
		return func() {}
	}
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		shown := false
		timer := time.NewTimer(time.Second)
		defer timer.Stop()
		for {
			select {
			case <-quit:
				if shown {
					fmt.Fprint(w, "\r\x1b[K")
				}
				return
			case <-timer.C:
				shown = true
				fmt.Fprintf(w, "\r\x1b[K%d files examined, %d findings", done.Load(), found.Load())
				timer.Reset(200 * time.Millisecond)
			}
		}
	}()
	return func() { close(quit); <-gone }
}
