package audit

import (
	_ "embed"
	"fmt"
	"io"
	"strings"
	"time"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/session"
	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/finding"
)

// page is the page around the data: one file, no network.
//
//go:embed page.html
var page string

// pageData is what the page's script shows.
type pageData struct {
	Title   string           `json:"title"`
	Made    string           `json:"made"`
	Summary *explain.Summary `json:"summary"`
	Rules   []pageRule       `json:"rules"`
	Strings []string         `json:"strings"` // names and paths, which the files refer to by number
	Files   []pageFile       `json:"files"`
}

type pageRule struct {
	ID      string `json:"id"`
	Summary string `json:"summary"`
	Help    string `json:"help"`
}

type pageFile struct {
	Path     string            `json:"path"`
	Tag      string            `json:"tag"`
	Entries  []string          `json:"entries"`
	Loader   string            `json:"loader"`
	Reason   string            `json:"reason,omitempty"`
	Findings []finding.Finding `json:"findings"`
	Verdicts []string          `json:"verdicts,omitempty"`
	// Tree has an element for each library: name, path (-1: not found), rule, cause, the file
	// that needs it, and what is wrong with it (-1: nothing), all numbers of strings; loaded
	// ones are listed once.
	Tree [][6]int `json:"tree"`
}

func writePage(w io.Writer, found *audited) error {
	d := pageData{Title: strings.Join(found.paths, " "), Made: time.Now().UTC().Format("2006-01-02 15:04 UTC"),
		Summary: &found.summary, Strings: []string{}, Files: []pageFile{}}
	for _, r := range finding.Situations() {
		d.Rules = append(d.Rules, pageRule{r.ID, r.Summary, r.Help})
	}
	numbers := map[string]int{}
	number := func(s string) int {
		n, ok := numbers[s]
		if !ok {
			n = len(d.Strings)
			numbers[s] = n
			d.Strings = append(d.Strings, s)
		}
		return n
	}
	for _, r := range found.reports {
		if r.Outcome == explain.Skipped {
			continue
		}
		f := pageFile{Path: r.Path, Tag: r.Tag, Entries: session.EntriesOf(r.Entries), Reason: r.Reason,
			Findings: append([]finding.Finding{}, r.Findings...), Tree: [][6]int{}}
		if r.Load != nil {
			f.Loader = r.Load.Loader
			for i := range r.Load.Driver {
				f.Verdicts = append(f.Verdicts, r.Load.Driver[i].Line())
			}
			f.Tree = treeOf(r.Load, number)
		}
		d.Files = append(d.Files, f)
	}
	before, after, ok := strings.Cut(page, "DATA")
	if !ok {
		return fmt.Errorf("the page has no place for its data")
	}
	b, err := command.JSON(&d, "")
	if err != nil {
		return err
	}
	// In JSON it stands in strings alone. Without it nothing ends the script element.
	data := strings.ReplaceAll(string(b), "<", `\u003c`)
	for _, part := range []string{before, data, after} {
		if _, err := io.WriteString(w, part); err != nil {
			return err
		}
	}
	return nil
}

func treeOf(t *explain.File, number func(string) int) [][6]int {
	out := [][6]int{}
	for _, l := range t.Libraries {
		row := [6]int{number(l.Soname), -1, number(l.Rule), number(l.Cause), -1, -1}
		if l.Path != nil {
			row[1] = number(*l.Path)
		}
		if l.NeededBy != nil {
			row[4] = number(*l.NeededBy)
		}
		wrong := l.Error
		for _, lack := range l.Lacks {
			wrong += fmt.Sprintf(", version `%s' not found (required by %s)", lack.Version, lack.NeededBy)
		}
		if wrong != "" {
			row[5] = number(strings.TrimPrefix(wrong, ", "))
		}
		out = append(out, row)
	}
	return out
}
