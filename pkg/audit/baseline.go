package audit

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"

	"cuda-runpath/pkg/remedy"
)

// storeHash is the part of a store path that changes with every rebuild.
var storeHash = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`/store/[0-9a-z]{32}-`) })

// fingerprint is what makes two findings one: everything but the wording, the
// position and the hashes of store paths. It is a line of a baseline.
func fingerprint(path string, f *Finding) string {
	entry := ""
	if f.Entry != nil {
		entry = *f.Entry
	}
	line := fmt.Sprintf("%s\t%s\t%s\t%s", f.ID, remedy.Line(path), remedy.Line(entry), remedy.Line(f.Library))
	return storeHash().ReplaceAllString(strings.TrimRight(line, "\t"), "/store/*-")
}

// Digest identifies a finding of a file through rebuilds, in a few characters.
func Digest(path string, f *Finding) string {
	sum := fnv.New128a()
	io.WriteString(sum, fingerprint(path, f))
	return hex.EncodeToString(sum.Sum(nil))
}

// Baseline is the set of accepted findings.
type Baseline map[string]bool

// ParseBaseline reads accepted findings, one a line; empty lines and lines that
// begin with # do not count. Errors begin with the number of the line.
func ParseBaseline(r io.Reader) (Baseline, error) {
	accepted := Baseline{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if id, _, ok := strings.Cut(line, "\t"); !ok || !slices.ContainsFunc(rules, func(r Rule) bool { return r.ID == id }) {
			return nil, fmt.Errorf("%d: not a finding: %q", n, line)
		}
		accepted[line] = true
	}
	return accepted, lines.Err()
}

// Accept marks the findings that the baseline has.
func (b Baseline) Accept(r *Report) {
	for i := range r.Findings {
		r.Findings[i].Accepted = b[fingerprint(r.Path, &r.Findings[i])]
	}
}

// WriteBaseline writes the baseline that has all findings of the reports.
func WriteBaseline(w io.Writer, reports []*Report) error {
	var lines []string
	for _, r := range reports {
		for i := range r.Findings {
			lines = append(lines, fingerprint(r.Path, &r.Findings[i]))
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
