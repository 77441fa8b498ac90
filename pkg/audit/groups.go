package audit

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/remedy"
)

// Group is a finding that several files have, in the same words and with the same kind of remedy.
type Group struct {
	Finding finding.Finding // the first file's
	Files   []string
	// remedies are the files'.
	remedies []remedy.Remedy
}

// namedFiles is how many files of a group are named.
const namedFiles = 3

// Groups puts equal findings together, in the order in which they first occur.
func Groups(reports []*explain.Report) []*Group {
	var out []*Group
	known := map[string]*Group{}
	for _, r := range reports {
		for _, f := range r.Findings {
			key := fmt.Sprintf("%s\x00%s\x00%v\x00%v\x00%s", f.Severity, f.ID, f.Accepted, f.Command == nil,
				strings.ReplaceAll(f.Message, r.Path, "\x00"))
			g := known[key]
			if g == nil {
				g = &Group{Finding: f}
				known[key] = g
				out = append(out, g)
			}
			g.Files, g.remedies = append(g.Files, r.Path), append(g.remedies, f.Remedy)
		}
	}
	return out
}

// Names returns the group's first files, and how many more there are.
func (g *Group) Names() string {
	names := strings.Join(g.Files[:min(len(g.Files), namedFiles)], ", ")
	if more := len(g.Files) - namedFiles; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return names
}

// Fix returns what to do for all files of the group: one command with all of them,
// where their commands differ in the file alone. Many files are named by their directory, where
// the command leaves alone what is right.
func (g *Group) Fix() remedy.Remedy {
	f := &g.Finding
	n := len(f.Command)
	const similarly = " (similarly for the others: see --json)"
	if n == 0 && slices.ContainsFunc(g.remedies, func(r remedy.Remedy) bool { return !r.Same(f.Remedy) }) {
		return f.And(similarly)
	}
	if len(g.Files) == 1 || n == 0 {
		return f.Remedy
	}
	all, named := slices.Clone(f.Command), map[string]bool{f.Command[n-1]: true}
	for _, r := range g.remedies[1:] {
		c := r.Command
		if len(c) != n || !slices.Equal(c[:n-1], f.Command[:n-1]) {
			return f.And(similarly)
		}
		if !named[c[n-1]] { // several programs load one file
			named[c[n-1]] = true
			all = append(all, c[n-1])
		}
	}
	if tool := strings.Join(all[:n-1], " "); len(named) > namedFiles &&
		(tool == "stubReplace" || tool == "runpath normalize") {
		if dir := remedy.Common(all[n-1:]); dir != "/" && dir != "." {
			all = append(all[:n-1], dir)
		}
	}
	return f.Instead(all...)
}

// Counts says how often each kind of finding occurs, the most frequent first;
// notes only where they are shown.
func Counts(groups []*Group, notes bool) string {
	counts := map[string]int{}
	var ids []string
	for _, g := range groups {
		if g.Finding.Accepted || g.Finding.Severity == finding.Note && !notes {
			continue
		}
		if counts[g.Finding.ID] == 0 {
			ids = append(ids, g.Finding.ID)
		}
		counts[g.Finding.ID] += len(g.Files)
	}
	sort.SliceStable(ids, func(i, j int) bool { return counts[ids[i]] > counts[ids[j]] })
	for i, id := range ids {
		ids[i] = fmt.Sprintf("%d %s", counts[id], id)
	}
	return strings.Join(ids, ", ")
}
