package findings

import (
	"cmp"
	"fmt"

	"github.com/sirupsen/logrus"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/flags"
	"cuda-runpath/pkg/cli/session"
	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/tree"
)

// Ignore names libraries whose ambiguity is intended.
var Ignore = &command.Flag{Kind: command.List, Name: "ignore",
	Usage: "accept that `SONAME`, or a pattern such as 'libnpp*', is ambiguous (repeatable)"}

// Options reads the flags that say what counts as a finding.
func Options(c *command.Line) (explain.Options, error) {
	o := explain.Options{
		Layout: explain.Layout{DriverLink: c.String("driver-link"), Compat: c.String("compat"),
			StubDirs: flags.StubDirs(c), Nix: c.Bool("nix")},
		Ignore: c.StringSlice("ignore"),
		Strict: c.Bool("strict"),
	}
	if err := o.Validate(); err != nil {
		return o, command.Misusef("--ignore: %v", err)
	}
	return o, nil
}

// Checked is one element of "files" in the JSON document of a check.
type Checked struct {
	session.Report
	Findings []finding.Finding `json:"findings"`

	Result *explain.Report `json:"-"`
}

// CheckedFile is what a report says in the document and in the log, beside its findings.
func CheckedFile(r *explain.Report) *Checked {
	e := &Checked{session.NewReport(r.Path, r.Entries), append([]finding.Finding{}, r.Findings...), r}
	e.Reason, e.Tag = r.Reason, r.Tag
	switch {
	case r.Outcome == explain.Failed:
		e.Action = tree.Failed
	case r.Outcome == explain.Checked && len(r.Findings) == 0:
		e.Line = "nothing to report"
	case r.Outcome == explain.Skipped:
		if e.Action = tree.Skipped; r.Err != nil {
			e.Level = logrus.WarnLevel
		}
	case r.Outcome == explain.Empty: // a finding says it
		e.Action, e.Level = tree.Skipped, logrus.TraceLevel
	}
	return e
}

// InPackage is for what prints remedies.
var InPackage = flags.Nix("say what to write in it, not which command to run")

// RootOr returns the paths of the command line; with --root, "/" where there is none.
func RootOr(c *command.Line) []string {
	if c.String("root") != "" && len(c.Args) == 0 {
		return []string{"/"}
	}
	return c.Args
}

// Rooted turns the session's paths, which may be given as below the root or as on this machine,
// into those of this machine. It returns what names files as the system below the root does.
func Rooted(c *command.Line, l *loader.Loader, s *session.Session) func(host string) string {
	if c.String("root") == "" {
		return func(host string) string { return host }
	}
	for i, p := range s.Paths {
		inside := l.Path(p)
		s.Paths[i] = cmp.Or(l.Host(inside), "/")
		if host, _, err := l.Files().Resolve(inside); err == nil {
			s.Paths[i] = host
		}
	}
	return l.Inside
}

// Unexamined returns the report of an ELF file that cannot, or need not, be examined.
func Unexamined(f *tree.File, in func(string) string) *explain.Report {
	switch {
	case f.Err != nil:
		return explain.NewFailed(in(f.Path), f.Err)
	case f.SameAs != "":
		return explain.NewSkipped(in(f.Path), "the same file as "+in(f.SameAs))
	}
	return nil
}

// Fix returns what to do about a finding: the remedy or, of a package, what its author writes where that is known.
func Fix(s *session.Session, f *finding.Finding, r remedy.Remedy) remedy.Remedy {
	if text := f.FixInPackage(s.Hooks...); s.InPackage && text != "" {
		return remedy.Do("%s", text)
	}
	return r
}

// Print prints a line, where stdout is for text, and where one command is the fix a second
// one that is nothing else.
func Print(s *session.Session, path string, f *finding.Finding, fix remedy.Remedy) {
	what := Severity(s, f.Severity)
	if f.Accepted {
		what = "accepted"
	}
	if shown := s.Verbose || !f.Accepted && f.Severity != finding.Note; shown {
		line := fmt.Sprintf("%s: %s: %s", command.Printable(path), what, command.Printable(f.Message))
		if fix.Command == nil {
			s.Say("%s. fix: %s [%s]", line, command.Printable(fix.Whole()), f.ID)
			return
		}
		s.Say("%s [%s]; fix:\n    %s", line, f.ID, remedy.Quote(fix.Command...))
		if fix.Advice != "" {
			s.Say("    # %s", command.Printable(fix.Advice))
		}
	}
}

// Severity is a severity as people read it.
func Severity(s *session.Session, of finding.Severity) string {
	return s.Ink.Paint(map[finding.Severity]command.Hue{finding.Error: command.Red,
		finding.Warning: command.Yellow}[of], string(of))
}
