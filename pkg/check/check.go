// Package check examines one file, and says what there is to say of it: findings, counts, the line that ends a check.
//
// What several files of a tree settle together is the package audit's.
package check

import (
	"errors"
	"os"
	"path"
	"slices"

	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/process"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/runpath"
)

// Checker examines files, each by itself. It is safe for concurrent use.
type Checker struct{ *explain.System }

// New returns a checker.
func New(l *loader.Loader, o explain.Options) *Checker {
	o.Symbols = true
	return &Checker{explain.New(l, o)}
}

// Ambiguity examines one file as noRunpathAmbiguity does.
func (a *Checker) Ambiguity(p string) *Report {
	return a.Examine(p, process.Start{Environment: a.Loader.Environment()}, func(s *explain.Case, r *Report) {
		r.Findings = s.Tried(slices.DeleteFunc(s.All(), func(f finding.Finding) bool {
			// which loader a library is for, is its program's matter
			return !slices.Contains(finding.OfAmbiguity, f.ID) || f.ID == finding.LibcMismatch && s.Role != loader.Program
		}))
	})
}

// Examine looks at a file as one of its starts has it.
func (a *Checker) Examine(p string, start process.Start, look func(*explain.Case, *Report)) *Report {
	start.File = p
	state, err := start.Begin(a.Loader)
	var not *loader.NotLoadable
	switch {
	case errors.As(err, &not):
		return NewSkipped(p, string(not.Reason))
	case err != nil:
		return NewFailed(p, err)
	case state.Role == loader.Static:
		return NewSkipped(p, string(state.Main.File.ELF.SkipReason()))
	}
	r := &Report{Path: p, Outcome: Checked, Entries: runpath.Parse(state.Main.File.List)}
	if state.Main.File.Tag != 0 {
		r.Tag = state.Main.File.Tag.String()
	}
	look(a.Case(state), r)
	return r
}

// Unchecked returns a report for each directory among paths below which no file was seen.
func (a *Checker) Unchecked(paths, seen []string) (empty []*Report) {
	here, _ := os.Getwd()
	abs := func(p string) string { // "." and "sub" may both be named
		if path.IsAbs(p) {
			return path.Clean(p)
		}
		return path.Join(here, p)
	}
	for _, p := range paths {
		st, err := os.Stat(a.Loader.Host(p))
		dir := abs(p)
		if err != nil || !st.IsDir() || slices.ContainsFunc(seen,
			func(q string) bool { return explain.IsBelow(abs(q), dir) }) {
			continue
		}
		nothing := finding.Finding{ID: finding.NothingChecked, Message: "nothing was checked: there is no ELF file below it",
			Remedy: remedy.Do("name the directory that holds the programs and libraries")}.Strictly(a.Strict)
		empty = append(empty, &Report{Path: p, Outcome: Empty, Reason: "no ELF file",
			Findings: []finding.Finding{nothing}})
	}
	return empty
}
