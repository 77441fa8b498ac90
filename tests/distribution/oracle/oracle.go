// Package oracle says from outside whether an ELF file still is what it was: with
// the loader, elfutils and binutils, never with the editor's own reader.
package oracle

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limit is the time that one command may take.
const Limit = 60 * time.Second

// A Result is what a command did. Status is its exit status, or -1 where it could
// not be started or was ended by a signal; Why says which.
type Result struct {
	Out, Err string
	Status   int
	Why      string
}

// OK reports whether the command succeeded.
func (r Result) OK() bool { return r.Status == 0 }

func (r Result) String() string {
	return fmt.Sprintf("status %d %s\nstdout: %q\nstderr: %q", r.Status, r.Why, shorten(r.Out), shorten(r.Err))
}

func shorten(s string) string {
	if len(s) > 600 {
		return s[:600] + "…"
	}
	return s
}

// Run runs a command in a directory ("" for this one) with a bare environment:
// PATH, LC_ALL=C and what env adds.
func Run(dir string, env []string, name string, args ...string) Result {
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TMPDIR=" + os.TempDir()}, env...)
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	r := Result{Out: out.String(), Err: errs.String()}
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit) && exit.Exited():
		r.Status = exit.ExitCode()
	default:
		r.Status, r.Why = -1, err.Error()
	}
	return r
}

// Have reports which of the tools are missing.
func Have(tools ...string) (missing []string) {
	for _, t := range tools {
		if _, err := exec.LookPath(t); err != nil {
			missing = append(missing, t)
		}
	}
	return missing
}

var number = regexp.MustCompile(`0x[0-9a-f]+|[0-9]+`)

var textRelocation = regexp.MustCompile(
	`^section \[ *([0-9]+)\] .*: relocation ([0-9]+): read-only section modified but text relocation flag not set$`)

// relocatesData reports whether a relocation changes memory that is writable.
// eu-elflint takes an address that two segments' pages share for the read-only one's.
func relocatesData(file string, section, relocation int) bool {
	f, err := elf.Open(file)
	if err != nil || section >= len(f.Sections) {
		return false
	}
	defer f.Close()
	s := f.Sections[section]
	entry := make([]byte, s.Entsize)
	if s.Entsize < 8 || s.Type == elf.SHT_NOBITS {
		return false
	}
	if _, err := s.ReaderAt.ReadAt(entry, int64(relocation)*int64(s.Entsize)); err != nil {
		return false
	}
	addr := uint64(f.ByteOrder.Uint32(entry))
	if f.Class == elf.ELFCLASS64 {
		addr = f.ByteOrder.Uint64(entry)
	}
	return slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool {
		return p.Type == elf.PT_LOAD && p.Flags&elf.PF_W != 0 && addr >= p.Vaddr && addr < p.Vaddr+p.Memsz
	})
}

// Lint returns what eu-elflint --gnu-ld complains about, one complaint a line,
// numbers replaced by #: sections and symbols may be counted differently. Its word
// on a relocation of writable memory does not count.
func Lint(file string) []string {
	r := Run("", nil, "eu-elflint", "--gnu-ld", file)
	var lines []string
	for line := range strings.Lines(r.Out + r.Err) {
		line = strings.TrimSpace(strings.ReplaceAll(line, file, ""))
		if m := textRelocation.FindStringSubmatch(line); m != nil {
			section, _ := strconv.Atoi(m[1])
			relocation, _ := strconv.Atoi(m[2])
			if relocatesData(file, section, relocation) {
				continue
			}
		}
		if line != "" && line != "No errors" {
			lines = append(lines, number.ReplaceAllString(WithoutReason(line), "#"))
		}
	}
	if r.Status < 0 {
		lines = append(lines, "eu-elflint: "+r.Why)
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// WithoutReason cuts off what eu-elflint adds to one of its complaints: libelf's
// last error, of whatever section it looked at before.
func WithoutReason(line string) string {
	const complaint = "cannot get content of note section"
	if before, _, ok := strings.Cut(line, complaint+": "); ok {
		return before + complaint
	}
	return line
}

// Beyond returns the lines that none of the others have.
func Beyond(lines []string, others ...[]string) (more []string) {
	for _, l := range lines {
		if !slices.ContainsFunc(others, func(o []string) bool { return slices.Contains(o, l) }) {
			more = append(more, l)
		}
	}
	return more
}

var runPathLine = regexp.MustCompile(`(?m)\((RUNPATH|RPATH)\)\s+Library (?:runpath|rpath): \[(.*)\]$`)

// RunPath returns tag and list as readelf finds them through PT_DYNAMIC; both are
// empty where the file has no run path.
func RunPath(file string) (tag, list string) {
	r := Run("", nil, "readelf", "--dynamic", "--wide", file)
	m := runPathLine.FindStringSubmatch(r.Out)
	if m == nil {
		return "", ""
	}
	return m[1], m[2]
}

// Copy copies a file with its mode.
func Copy(to, from string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	st, err := os.Stat(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, b, 0o700); err != nil {
		return err
	}
	return os.Chmod(to, st.Mode().Perm()|0o600)
}
