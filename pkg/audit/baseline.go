package audit

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/store"
)

// storeHash is the part of a store path that changes with every rebuild.
var storeHash = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`/store/[0-9a-z]{32}-`) })

// fingerprint is what makes two findings one: everything but the wording, the
// position and the hashes of store paths. It is a line of a baseline.
func fingerprint(path string, f *finding.Finding) string {
	entry := ""
	if f.Entry != nil {
		entry = *f.Entry
	}
	line := fmt.Sprintf("%s\t%s\t%s\t%s", f.ID, remedy.Line(path), remedy.Line(entry), remedy.Line(f.Library))
	return storeHash().ReplaceAllString(strings.TrimRight(line, "\t"), "/store/*-")
}

// Digest identifies a finding of a file through rebuilds, in a few characters.
func Digest(path string, f *finding.Finding) string {
	sum := fnv.New128a()
	io.WriteString(sum, fingerprint(filepath.Clean(path), f))
	return hex.EncodeToString(sum.Sum(nil))
}

// Baseline is the set of accepted findings. Its lines name files as they are named from its
// directory, however they are named when they are examined; those in a Nix store that is not below
// it, and those of another system, have absolute names.
type Baseline struct {
	// Dir is its directory; "" where files are another system's.
	Dir string
	// Update accepts all findings, which Write then writes.
	Update   bool
	accepted map[string]bool // whether it has occurred
}

// Read reads accepted findings, one a line; empty lines and lines that begin with # do not
// count. Errors begin with the number of the line.
func (b *Baseline) Read(r io.Reader) error {
	b.accepted = map[string]bool{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if id, _, ok := strings.Cut(line, "\t"); !ok || !finding.Known(id) {
			return fmt.Errorf("%d: not a finding: %q", n, line)
		}
		b.accepted[line] = false
	}
	return lines.Err()
}

// Accept marks the findings that the baseline has. A file that could not be examined counts
// as examined where that is accepted.
func (b *Baseline) Accept(r *explain.Report) {
	if b.accepted == nil {
		b.accepted = map[string]bool{}
	}
	all := len(r.Findings) > 0
	for i := range r.Findings {
		line := fingerprint(b.name(r.Path), &r.Findings[i])
		if _, known := b.accepted[line]; known || b.Update {
			b.accepted[line], r.Findings[i].Accepted = true, true
		}
		all = all && r.Findings[i].Accepted
	}
	if all && r.Outcome == explain.Failed {
		r.Outcome = explain.Checked
	}
}

// name is a file's name from the baseline's directory.
func (b *Baseline) name(file string) string {
	if b.Dir == "" {
		return file
	}
	dir, err := filepath.Abs(b.Dir)
	if err != nil {
		return file
	}
	at, err := filepath.Abs(file)
	if err != nil {
		return file
	}
	name, err := filepath.Rel(dir, at)
	if err != nil {
		return file
	}
	if store.Contains(at) && !(filepath.IsLocal(name) && store.Contains("/"+name)) {
		return at
	}
	return name
}

// Gone returns how many accepted findings have not occurred, but for those of kinds that were
// not asked for.
func (b *Baseline) Gone(ignored []string) (n int) {
	for line, occurred := range b.accepted {
		if id, _, _ := strings.Cut(line, "\t"); !occurred && !slices.Contains(ignored, id) {
			n++
		}
	}
	return n
}

// Len returns how many findings the baseline has.
func (b *Baseline) Len() int { return len(b.accepted) }

// Write writes the baseline.
func (b *Baseline) Write(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintln(out,
		"# Findings of runpath audit that are accepted: identifier, file, entry, library, separated by tabs.")
	fmt.Fprintln(out, "# Files are named as from the directory of this one.")
	for _, line := range slices.Sorted(maps.Keys(b.accepted)) {
		fmt.Fprintln(out, line)
	}
	return out.Flush()
}
