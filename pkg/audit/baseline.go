package audit

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"cuda-runpath/pkg/cli"
)

// storeHash is the part of a store path that changes with every rebuild.
var storeHash = regexp.MustCompile(`/store/[0-9a-z]{32}-`)

// fingerprint is what makes two findings one: everything but the wording, the
// position and the hashes of store paths. It is a line of a baseline.
func fingerprint(path string, f *Finding) string {
	entry := ""
	if f.Entry != nil {
		entry = *f.Entry
	}
	line := fmt.Sprintf("%s\t%s\t%s\t%s", f.ID, cli.Printable(path), cli.Printable(entry), cli.Printable(f.Library))
	return storeHash.ReplaceAllString(strings.TrimRight(line, "\t"), "/store/*-")
}

func digest(line string) string {
	sum := sha256.Sum256([]byte(line))
	return hex.EncodeToString(sum[:16])
}

// readBaseline reads accepted findings, one a line; empty lines and lines that
// begin with # do not count.
func readBaseline(o Output) (map[string]bool, error) {
	accepted := map[string]bool{}
	if o.Baseline == "" || o.UpdateBaseline {
		return accepted, nil
	}
	f, err := os.Open(o.Baseline)
	if err != nil {
		return nil, fmt.Errorf("--baseline: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if id, _, ok := strings.Cut(line, "\t"); !ok || !slices.ContainsFunc(rules, func(r Rule) bool { return r.ID == id }) {
			return nil, fmt.Errorf("--baseline: %s:%d: not a finding: %q", o.Baseline, n, line)
		}
		accepted[line] = true
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("--baseline: %s: %w", o.Baseline, err)
	}
	return accepted, nil
}

func writeBaseline(w io.Writer, results []*result) error {
	var lines []string
	for _, r := range results {
		for i := range r.report.Findings {
			lines = append(lines, fingerprint(r.report.Path, &r.report.Findings[i]))
		}
	}
	slices.Sort(lines)
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, "# Findings of runpath audit that are accepted: identifier, file, entry, library, separated by tabs.")
	for _, line := range slices.Compact(lines) {
		fmt.Fprintln(b, line)
	}
	return b.Flush()
}
