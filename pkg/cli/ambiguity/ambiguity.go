package ambiguity

import (
	"os"
	"sync/atomic"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/findings"
	"cuda-runpath/pkg/cli/flags"
	"cuda-runpath/pkg/cli/loading"
	"cuda-runpath/pkg/cli/session"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/tree"
)

// hook is what `runpath hook` tells of the other hooks of a build.
var hook = &command.Flag{Kind: command.List, Name: "hook", Hidden: true,
	Usage: "`TOOL` edits run paths in this build; \"TOOL: WHY\": it did not, and why (repeatable)"}

// Command returns the app of that check.
func Command() *command.Command {
	app := command.New("noRunpathAmbiguity", "PATH...", "check that run paths are not ambiguous", `
A run path is ambiguous for a library where two or more of its directories hold different files of that name, for the
file's machine: then the order of the entries alone decides which one is loaded. That is an error for a name that the
file asks for (DT_NEEDED, a .note.dlopen note, a string literal in read-only data), else a warning. A stub directory,
an empty entry, and the driver link before a compat directory are errors too.

So are a needed library that is named by a relative path, a resolution note that leads to a stub or past the driver
link, a libc.so.6 of another build than the program's loader, and a symbol that nothing in the process defines, which is
a warning where only a call of it fails.

The report names the file, the library, each candidate with its position, which one wins, and the fix. A library that
both a compat directory and the driver link provide is not ambiguous when they stand in that order. Warnings alone do
not make it fail.`+session.ExitStatus, "noRunpathAmbiguity app\nnoRunpathAmbiguity --ignore 'libnpp*' app")
	app.Common = []string{"ignore", "strict", "driver-link", "compat", "json", "verbose"}
	app.Flags = append(append(append(app.Flags, findings.Ignore, flags.Strict, command.RootFlag, loading.ReadsNote,
		flags.Malformed, findings.InPackage, hook), flags.Search...), flags.Tree...)
	app.Action = func(c *command.Line) error {
		s, err := session.Start(c, findings.RootOr(c))
		if err != nil {
			return err
		}
		options, err := findings.Options(c)
		if err != nil {
			return err
		}
		options.Symbols = true
		options.CompatVerdict = host.CompatJudge(c.String("root"), "")
		l, err := loader.New(loader.Options{NoTries: true, Opened: true, Root: c.String("root"),
			ReadsNote: c.String("loader-reads-note")})
		if err != nil {
			return err
		}
		return checkAmbiguity(s, explain.New(l, options), findings.Rooted(c, l, s))
	}
	return app
}

func checkAmbiguity(s *session.Session, a *explain.System, in func(string) string) error {
	var sum explain.Summary
	var notELF atomic.Int64
	var seen []string
	from := &origins{}
	if s.InPackage {
		from = originsOf(os.Getenv)
	}
	run := session.Sweep[*findings.Checked]{
		Options: tree.Options{FollowArguments: true},
		Visit: func(f *tree.File) (*findings.Checked, bool) {
			if f.Err == nil && !f.ELF() {
				notELF.Add(1)
				return findings.CheckedFile(explain.NewSkipped(in(f.Path), string(elfimage.NotELF))),
					s.JSON || s.Verbose || s.Named(f.Path)
			}
			r := findings.Unexamined(f, in)
			if r == nil {
				a.Loader.Take(in(f.Path), f.FD())
				r = a.Ambiguity(in(f.Path))
				from.explain(r)
			}
			if r.Outcome == explain.Failed && (s.Tolerates(f, r.Err) || s.Tolerates(f, session.ParseError(f))) {
				r.Outcome = explain.Skipped
			}
			return findings.CheckedFile(r), true
		},
		Tell: func(c *findings.Checked) {
			if c.Reason != string(elfimage.NotELF) {
				sum.Count(c.Result)
				seen = append(seen, c.Path)
			}
			for _, f := range c.Findings {
				findings.Print(s, c.Path, &f, findings.Fix(s, &f, f.Remedy))
			}
		},
		Nothing: func() (all []*findings.Checked) {
			if s.InPackage && len(seen) > 0 {
				return nil // outputs may have none
			}
			paths := make([]string, len(s.Paths))
			for i, p := range s.Paths {
				paths[i] = in(p)
			}
			for _, r := range a.Unchecked(paths, seen) {
				if s.InPackage { // nor is it a failure of a package
					r.Findings[0].Severity = finding.Warning
				}
				all = append(all, findings.CheckedFile(r))
			}
			return all
		},
		End: func(all *session.Summary, _ int) (any, string) {
			sum.Skipped += int(notELF.Load())
			sum.Stopped = all.Stopped
			return &sum, sum.Line(s.Verbose)
		},
	}
	err := run.Run(s)
	if err == nil && sum.Bad() {
		err = command.ErrFailed
	}
	return err
}
