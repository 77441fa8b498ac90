package cli

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"cuda-runpath/pkg/audit"
	"cuda-runpath/pkg/remedy"
)

// group is a finding that several files have, in the same words.
type group struct {
	finding audit.Finding // the first file's
	files   []string
	// commands are the files' remedies.
	commands [][]string
}

// namedFiles is how many files of a group are named.
const namedFiles = 3

// groupFindings puts equal findings together, in the order in which they first occur.
func groupFindings(reports []*audit.Report) []*group {
	var out []*group
	known := map[string]*group{}
	for _, r := range reports {
		for _, f := range r.Findings {
			key := fmt.Sprintf("%s\x00%s\x00%v\x00%s", f.Severity, f.ID, f.Accepted, strings.ReplaceAll(f.Message, r.Path, "\x00"))
			g := known[key]
			if g == nil {
				g = &group{finding: f}
				known[key] = g
				out = append(out, g)
			}
			g.files, g.commands = append(g.files, r.Path), append(g.commands, f.Command)
		}
	}
	return out
}

// names returns the group's first files, and how many more there are.
func (g *group) names() string {
	names := strings.Join(g.files[:min(len(g.files), namedFiles)], ", ")
	if more := len(g.files) - namedFiles; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return names
}

// fix returns what to do for all files of the group: one command with all of them,
// where their commands differ in the file alone.
func (g *group) fix() string {
	f := &g.finding
	n := len(f.Command)
	if len(g.files) == 1 || n == 0 {
		return f.Fix
	}
	all := slices.Clone(f.Command)
	for _, c := range g.commands[1:] {
		if len(c) != n || !slices.Equal(c[:n-1], f.Command[:n-1]) {
			return f.Fix + " (similarly for the others: see --json)"
		}
		all = append(all, c[n-1])
	}
	return remedy.Quote(all...) + strings.TrimPrefix(f.Fix, remedy.Quote(f.Command...))
}

// printGroups prints a line for each group of findings.
func printGroups(s *session, groups []*group) {
	for _, g := range groups {
		printFinding(s, g.names(), &g.finding, g.fix())
	}
}

// countFindings says how often each kind of finding occurs, the most frequent first;
// notes only where they are shown.
func countFindings(s *session, groups []*group) string {
	counts := map[string]int{}
	var ids []string
	for _, g := range groups {
		if g.finding.Accepted || g.finding.Severity == audit.Note && !s.Verbose {
			continue
		}
		if counts[g.finding.ID] == 0 {
			ids = append(ids, g.finding.ID)
		}
		counts[g.finding.ID] += len(g.files)
	}
	sort.SliceStable(ids, func(i, j int) bool { return counts[ids[i]] > counts[ids[j]] })
	for i, id := range ids {
		ids[i] = fmt.Sprintf("%d %s", counts[id], id)
	}
	return strings.Join(ids, ", ")
}
