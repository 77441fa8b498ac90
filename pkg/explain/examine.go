package explain

import (
	"errors"
	"os"
	"path"
	"slices"

	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/process"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/runpath"
)

// Ambiguity examines one file as noRunpathAmbiguity does.
func (y *System) Ambiguity(p string) *Report {
	return y.Examine(p, process.Start{Environment: y.Loader.Environment()}, func(s *Case, r *Report) {
		r.Findings = s.Tried(slices.DeleteFunc(s.All(), func(f finding.Finding) bool {
			// which loader a library is for, is its program's matter
			return !slices.Contains(finding.OfAmbiguity, f.ID) || f.ID == finding.LibcMismatch && s.Role != loader.Program
		}))
	})
}

// Examine looks at a file as one of its starts has it. What several files settle together is the package audit's.
func (y *System) Examine(p string, start process.Start, look func(*Case, *Report)) *Report {
	start.File = p
	state, err := start.Begin(y.Loader)
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
	look(y.Case(state), r)
	return r
}

// Unchecked returns a report for each directory among paths below which no file was seen.
func (y *System) Unchecked(paths, seen []string) (empty []*Report) {
	here, _ := os.Getwd()
	abs := func(p string) string { // "." and "sub" may both be named
		if path.IsAbs(p) {
			return path.Clean(p)
		}
		return path.Join(here, p)
	}
	for _, p := range paths {
		st, err := os.Stat(y.Loader.Host(p))
		dir := abs(p)
		if err != nil || !st.IsDir() || slices.ContainsFunc(seen,
			func(q string) bool { return IsBelow(abs(q), dir) }) {
			continue
		}
		nothing := finding.Finding{ID: finding.NothingChecked, Message: "nothing was checked: there is no ELF file below it",
			Remedy: remedy.Do("name the directory that holds the programs and libraries")}.Strictly(y.Strict)
		empty = append(empty, &Report{Path: p, Outcome: Empty, Reason: "no ELF file",
			Findings: []finding.Finding{nothing}})
	}
	return empty
}
