package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/sirupsen/logrus"

	"cuda-runpath/pkg/audit"
	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/plainfile"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/scripts"
	"cuda-runpath/pkg/tree"
)

// auditOptions reads the flags that say what counts as a finding.
func auditOptions(c *command.Line) (audit.Options, error) {
	o := audit.Options{Loads: c.String("html") != "", Options: explain.Options{
		Layout: explain.Layout{DriverLink: c.String("driver-link"), Compat: c.String("compat"),
			StubDirs: stubDirs(c), Nix: c.Bool("nix")},
		Ignore: c.StringSlice("ignore"),
		Strict: c.Bool("strict"),
	}}
	if err := o.Validate(); err != nil {
		return o, command.Misusef("--ignore: %v", err)
	}
	return o, nil
}

// checked is one element of "files" in the JSON document of a check.
type checked struct {
	fileReport
	Findings []explain.Conclusion `json:"findings"`

	report  *audit.Report
	pending *audit.Pending
}

// checkedFile is what a report says in the document and in the log, beside its findings.
func checkedFile(r *audit.Report) *checked {
	e := &checked{newReport(r.Path, r.Entries), append([]explain.Conclusion{}, r.Findings...), r, nil}
	e.Reason, e.Tag = r.Reason, r.Tag
	switch {
	case r.Outcome == audit.Failed:
		e.Action = tree.Failed
	case r.Outcome == audit.Checked && len(r.Findings) == 0:
		e.line = "nothing to report"
	case r.Outcome == audit.Skipped:
		if e.Action = tree.Skipped; r.Err != nil {
			e.level = logrus.WarnLevel
		}
	case r.Outcome == audit.Empty: // a finding says it
		e.Action, e.level = tree.Skipped, logrus.TraceLevel
	}
	return e
}

// NoRunpathAmbiguity returns the app of that check.
func NoRunpathAmbiguity() *command.Command {
	app := command.New("noRunpathAmbiguity", "PATH...", "check that run paths are not ambiguous", `
A run path is ambiguous for a library where two or more of its directories hold different files of that name, for the
file's machine: then the order of the entries alone decides which one is loaded. That is an error for a name that the file
asks for (DT_NEEDED, a .note.dlopen note, a string literal in read-only data), else a warning. A stub directory, an empty entry,
and the driver link before a compat directory are errors too.

The report names the file, the library, each candidate with its position, which one wins, and the fix. A library
that both a compat directory and the driver link provide is not ambiguous when they stand in that order. Warnings alone do not make it fail.`+exitStatus, "noRunpathAmbiguity app\nnoRunpathAmbiguity --ignore 'libnpp*' app")
	app.Common = []string{"ignore", "strict", "driver-link", "compat", "json", "verbose"}
	app.Flags = append(append(append(app.Flags, ignoreFlag, strictFlag, command.RootFlag, readsNoteFlag, malformedFlag, inPackageFlag), searchFlags...), treeFlags...)
	app.Action = func(c *command.Line) error {
		s, err := start(c, rootOr(c))
		if err != nil {
			return err
		}
		options, err := auditOptions(c)
		if err != nil {
			return err
		}
		options.CompatVerdict = host.CompatJudge(c.String("root"), "")
		l, err := loader.New(loader.Options{NoTries: true, Opened: true, Root: c.String("root"), ReadsNote: c.String("loader-reads-note")})
		if err != nil {
			return err
		}
		return checkAmbiguity(s, audit.New(l, options), rooted(c, l, s))
	}
	return app
}

// inPackageFlag is for what prints remedies.
var inPackageFlag = nixFlag("say what to write in it, not which command to run")

// rootOr returns the paths of the command line; with --root, "/" where there is none.
func rootOr(c *command.Line) []string {
	if c.String("root") != "" && len(c.Args) == 0 {
		return []string{"/"}
	}
	return c.Args
}

// rooted turns the session's paths, which may be given as below the root or as on this machine,
// into those of this machine. It returns what names files as the system below the root does.
func rooted(c *command.Line, l *loader.Loader, s *session) func(host string) string {
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

func checkAmbiguity(s *session, a *audit.Auditor, in func(string) string) error {
	var sum audit.Summary
	var notELF atomic.Int64
	var seen []string
	run := sweep[*checked]{
		options: tree.Options{FollowArguments: true},
		visit: func(f *tree.File) (*checked, bool) {
			if f.Err == nil && !f.ELF() {
				notELF.Add(1)
				return checkedFile(audit.NewSkipped(in(f.Path), string(elfimage.NotELF))), s.JSON || s.Verbose || s.named(f.Path)
			}
			r := unexamined(f, in)
			if r == nil {
				a.Loader.Take(in(f.Path), f.FD())
				r = a.Ambiguity(in(f.Path))
			}
			if r.Outcome == audit.Failed && (s.tolerates(f, r.Err) || s.tolerates(f, parseError(f))) {
				r.Outcome = audit.Skipped
			}
			return checkedFile(r), true
		},
		tell: func(c *checked) {
			if c.Reason != string(elfimage.NotELF) {
				sum.Count(c.report)
				seen = append(seen, c.Path)
			}
			for _, f := range c.Findings {
				printFinding(s, c.Path, &f, fix(s, &f, f.Remedy))
			}
		},
		nothing: func() (all []*checked) {
			if s.InPackage && len(seen) > 0 {
				return nil // outputs may have none
			}
			paths := make([]string, len(s.Paths))
			for i, p := range s.Paths {
				paths[i] = in(p)
			}
			for _, r := range a.Unchecked(paths, seen) {
				if s.InPackage { // nor is it a failure of a package
					r.Findings[0].Severity = explain.Warning
				}
				all = append(all, checkedFile(r))
			}
			return all
		},
		end: func(all *runSummary, _ int) (any, string) {
			sum.Skipped += int(notELF.Load())
			sum.Stopped = all.Stopped
			return &sum, sum.Line(s.Verbose)
		},
	}
	err := run.run(s)
	if err == nil && sum.Bad() {
		err = command.ErrFailed
	}
	return err
}

// unexamined returns the report of an ELF file that cannot, or need not, be examined.
func unexamined(f *tree.File, in func(string) string) *audit.Report {
	switch {
	case f.Err != nil:
		return audit.NewFailed(in(f.Path), f.Err)
	case f.SameAs != "":
		return audit.NewSkipped(in(f.Path), "the same file as "+in(f.SameAs))
	}
	return nil
}

// fix returns what to do about a finding: the remedy or, of a package, what its author writes where that is known.
func fix(s *session, f *explain.Conclusion, r remedy.Remedy) remedy.Remedy {
	if text := f.FixInPackage(); s.InPackage && text != remedy.Text(f.Fix) {
		return remedy.Do("%s", text)
	}
	return r
}

// printFinding prints a line, where stdout is for text, and where one command is the fix a second
// one that is nothing else.
func printFinding(s *session, path string, f *explain.Conclusion, fix remedy.Remedy) {
	what := s.Ink.Paint(map[explain.Severity]command.Hue{explain.Error: command.Red, explain.Warning: command.Yellow}[f.Severity], string(f.Severity))
	if f.Accepted {
		what = "accepted"
	}
	if shown := s.Verbose || !f.Accepted && f.Severity != explain.Note; shown {
		line := fmt.Sprintf("%s: %s: %s", command.Printable(path), what, command.Printable(f.Message))
		if fix.Command == nil {
			s.say("%s. fix: %s [%s]", line, command.Printable(fix.Fix), f.ID)
			return
		}
		s.say("%s [%s]; fix:\n    %s", line, f.ID, remedy.Quote(fix.Command...))
		if words := strings.TrimLeft(fix.Words(), " ,;:"); words != "" {
			s.say("    # %s", command.Printable(words))
		}
	}
}

// auditCommand returns the command audit.
func auditCommand() *command.Command {
	return &command.Command{
		Name:   "audit",
		Common: []string{"strict", "baseline", "sarif", "explain", "json", "verbose"},
		Usage:  "report everything that is wrong with the run paths of files",
		Examples: `runpath audit app
runpath audit --sarif findings.sarif --baseline accepted app`,
		ArgsUsage:   "PATH...",
		Description: "A PATH is a file, a directory or a store path.",
		Flags: append(append([]*command.Flag{
			{Name: "closure", Usage: "the PATHs are in a Nix store: also examine all that they need (nix-store -qR)"},
			{Kind: command.String, Name: "html", Usage: "write a page with a table of the findings and each file's libraries to `FILE`, - for stdout"},
			{Kind: command.String, Name: "sarif", Usage: "write the findings as SARIF 2.1.0, for code scanning, to `FILE`, - for stdout"},
			{Kind: command.String, Name: "baseline", Usage: "the findings in `FILE` are accepted"},
			{Name: "update-baseline", Usage: "write all findings to the --baseline file, which accepts them"},
			{Kind: command.List, Name: "ignore-finding", Words: findings, Usage: "leave findings of the kind `ID` out (repeatable)"},
			{Name: "list-findings", Usage: "list the kinds of findings, and examine nothing"},
			{Kind: command.String, Name: "explain", Words: findings, Usage: "say what the kind of finding `ID` is about, and examine nothing"},
			inPackageFlag, command.RootFlag, ignoreFlag, strictFlag, assumeDriverFlag, cpuFlag, readsNoteFlag, gpuFlag,
		}, searchFlags...), treeFlags...),
		Action: func(c *command.Line) error {
			if c.Bool("list-findings") || c.IsSet("explain") {
				return explainFindings(c)
			}
			s, err := start(c, rootOr(c))
			if err != nil {
				return err
			}
			return s.orStopped(auditPaths(s, c), func(why string) any { return &audit.Summary{Stopped: why} })
		},
	}
}

// findings are the kinds of findings, for completion.
func findings() (words []command.Word) {
	for _, r := range explain.Rules() {
		words = append(words, command.Word{Word: r.ID, Means: r.Summary})
	}
	return words
}

// auditPaths carries out what a command line of audit asks for.
func auditPaths(s *session, c *command.Line) error {
	options, err := auditOptions(c)
	if err != nil {
		return err
	}
	if options.GPUs, err = gpuTargets(s, c, general); err != nil {
		return err
	}
	options.CompatVerdict = host.CompatJudge(c.String("root"), c.String("assume-driver"))
	out := auditOutput{closure: c.Bool("closure"), rooted: c.String("root") != "", sarif: c.String("sarif"), html: c.String("html"), baseline: c.String("baseline"), ignore: c.StringSlice("ignore-finding")}
	if out.accepted.Update = c.Bool("update-baseline"); out.accepted.Update && out.baseline == "" {
		return command.Misuse("--update-baseline needs --baseline FILE")
	}
	if !out.rooted {
		out.accepted.Dir = filepath.Dir(out.baseline)
	}
	for _, id := range out.ignore {
		if !explain.Known(id) {
			return command.Misusef("--ignore-finding %s: there is no such finding (--list-findings)", id)
		}
	}
	for _, f := range out.files() {
		if f.name == "-" && (s.JSON || s.Document) {
			return command.Misuse("stdout takes one document: give all but one of them a FILE")
		}
		s.Document = s.Document || f.name == "-"
		if st, err := os.Stat(f.name); err == nil && st.IsDir() {
			return command.Misusef("%s is a directory: name a file in it, such as %s", f.name, filepath.Join(f.name, "audit"))
		}
	}
	if options.Noted = c.Bool("closure"); options.Noted {
		out.root = strings.TrimSuffix(c.String("root"), "/")
		if out.roots, out.all, err = audit.Closure(out.root, s.Paths); err != nil {
			return err
		}
		s.Paths = slices.Clone(out.all)
	}
	search, err := loaderOptions(c)
	if err != nil {
		return err
	}
	search.Opened = true
	if options.GPUs != nil {
		search.Look = explain.Look
	}
	l, err := loader.New(search)
	if err != nil {
		return err
	}
	return runAudit(s, audit.New(l, options), rooted(c, l, s), out)
}

// explainFindings says what kinds of findings there are, or what one is about.
func explainFindings(c *command.Line) error {
	if len(c.Args) > 0 {
		return command.Misusef("--list-findings and --explain examine nothing: %q", c.Arg(0))
	}
	rules := explain.Rules()
	if id := c.String("explain"); c.IsSet("explain") {
		i := slices.IndexFunc(rules, func(r explain.Rule) bool { return r.ID == id })
		if i < 0 {
			return command.Misusef("--explain %s: there is no such finding (--list-findings)", id)
		}
		_, err := fmt.Fprintf(c.Stdout, "%s (%s): %s\n%s\n", id, rules[i].Severity, rules[i].Summary, rules[i].Help)
		return err
	}
	for _, r := range rules {
		fmt.Fprintf(c.Stdout, "%-22s %-8s %s\n", r.ID, r.Severity, r.Summary)
	}
	return nil
}

// auditOutput says where the results go, beside the log.
type auditOutput struct {
	sarif, html string // files to write; "" for none
	baseline    string // file of accepted findings; "" for none
	accepted    audit.Baseline
	ignore      []string // kinds of findings
	closure     bool     // the paths are not those that were named
	rooted      bool     // they are below another system's root
	root        string   // the store's
	roots, all  []string // where closure: the store paths that were named, and with what they need
}

// runAudit reports everything that is wrong with the run path of each file. It
// returns command.ErrFailed where there is an error that the baseline does not have, or a
// file could not be examined.
func runAudit(s *session, a *audit.Auditor, in func(string) string, o auditOutput) error {
	if err := o.read(); err != nil {
		return err
	}
	var visited, findings atomic.Int64
	stop := s.progress(func() string {
		return fmt.Sprintf("%d files examined, %d findings", visited.Load(), findings.Load())
	})
	found := &audited{paths: s.Paths}
	sum := &found.summary
	named := func(path string) bool { return !o.closure && slices.Contains(found.paths, path) }
	var links []string
	if !o.rooted {
		links = audit.Farm(s.Paths)
		s.Paths = slices.Concat(s.Paths, links)
	}
	whole := a.Begin()
	pending := func(p *audit.Pending) *checked { return &checked{pending: p} }
	run := sweep[*checked]{
		options: tree.Options{FollowArguments: true},
		visit: func(f *tree.File) (*checked, bool) {
			visited.Add(1)
			if f.Err == nil && !f.ELF() {
				text, lang, err := scripts.Read(f)
				if err != nil {
					return pending(audit.NewPending(audit.NewFailed(in(f.Path), err))), true
				}
				r := whole.Script(in(f.Path), f.Head(), text, lang)
				if r == nil && named(f.Path) {
					r = audit.NewSkipped(f.Path, string(elfimage.NotELF))
				}
				return pending(audit.NewPending(r)), r != nil
			}
			if f.Err == nil && f.SameAs != "" {
				return pending(whole.TakeLink(in(f.Path), in(f.SameAs))), true
			}
			if r := unexamined(f, in); r != nil {
				return pending(audit.NewPending(r)), true
			}
			return pending(whole.Take(in(f.Path), f.FD())), true
		},
		together: func(all []*checked) ([]*checked, error) {
			sum.Skipped = int(visited.Load()) - len(all)
			var seen []*audit.Pending
			// What the walk has opened is read by now, and so is not opened again.
			tree.InOrder(s.Jobs, len(all), func(i int) bool {
				if s.Context.Err() != nil {
					return false
				}
				findings.Add(int64(whole.Examine(all[i].pending)))
				return true
			}, func(done bool) {
				if done {
					seen = append(seen, all[len(seen)].pending)
				}
			})
			stop()
			if len(seen) < len(all) {
				return all[:len(seen)], &tree.Stopped{Visited: len(seen), Cause: context.Cause(s.Context)}
			}
			seen = append(seen, whole.OtherWays(links, seen)...)
			if !o.closure {
				inside := make([]string, len(found.paths))
				for i, p := range found.paths {
					inside[i] = in(p)
				}
				seen = append(seen, whole.Unchecked(inside, seen)...)
			}
			for _, p := range seen[len(all):] {
				all = append(all, pending(p))
			}
			return all, nil
		},
		tell: func(c *checked) {
			r := whole.Finish(c.pending)
			r.Ignore(o.ignore)
			o.accepted.Accept(r)
			sum.Count(r)
			if *c = *checkedFile(r); c.Action == tree.Skipped && c.level == 0 && named(r.Path) {
				c.level = logrus.InfoLevel
			}
			found.reports = append(found.reports, r)
		},
		end: func(all *runSummary, _ int) (any, string) {
			sum.Stopped, sum.Gone = all.Stopped, o.accepted.Gone(o.ignore)
			groups := audit.Groups(found.reports)
			for _, g := range groups {
				printFinding(s, g.Names(), &g.Finding, fix(s, &g.Finding, g.Fix()))
			}
			if counts := audit.Counts(groups, s.Verbose); counts != "" && !s.Quiet {
				s.say("%s", counts)
			}
			if o.closure && sum.Stopped == "" {
				var err error
				if sum.KeptByNotes, err = audit.KeptByNotes(o.root, o.roots, o.all, found.reports); err != nil {
					s.Log.Error(err)
					sum.Failed++
				} else if len(sum.KeptByNotes) > 0 && !s.Quiet {
					s.say("%s", audit.KeptText(sum.KeptByNotes))
				}
			}
			return sum, sum.Line(s.Verbose)
		},
	}
	failed := run.run(s)
	if failed != nil && !errors.Is(failed, command.ErrFailed) {
		return failed
	}
	if sum.Stopped != "" { // such a run has not seen all that is accepted
		o.accepted.Update = false
	}
	for _, f := range o.files() {
		if err := f.save(s.Stdout, found); err != nil {
			return err
		}
	}
	if o.accepted.Update && !s.Quiet {
		s.say("%s: %s", command.Printable(o.baseline), count(o.accepted.Len(), "accepted finding", "accepted findings"))
	}
	if sum.Bad() {
		return command.ErrFailed
	}
	return failed
}

// read reads the baseline.
func (o *auditOutput) read() error {
	if o.baseline == "" || o.accepted.Update {
		return nil
	}
	const most = 64 << 20
	text, err := plainfile.Read(o.baseline, most)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--baseline: %w: --update-baseline makes it", err)
	}
	if err != nil {
		return fmt.Errorf("--baseline: %w", err)
	}
	if err := o.accepted.Read(bytes.NewReader(text)); err != nil {
		return fmt.Errorf("--baseline: %s:%w", o.baseline, err)
	}
	return nil
}

// files returns the files to write, with what writes each.
func (o *auditOutput) files() []outFile {
	all := []outFile{{o.sarif, writeSARIF}, {o.html, writePage}}
	if o.accepted.Update {
		all = append(all, outFile{o.baseline, func(w io.Writer, _ *audited) error { return o.accepted.Write(w) }})
	}
	return slices.DeleteFunc(all, func(f outFile) bool { return f.name == "" })
}

// outFile is one of an audit's results: what writes it, and the file, "-" for stdout.
type outFile struct {
	name  string
	write func(io.Writer, *audited) error
}

// audited is what an audit found.
type audited struct {
	paths   []string
	reports []*audit.Report
	summary audit.Summary
}

func (f *outFile) save(stdout io.Writer, found *audited) error {
	if f.name == "-" {
		return f.write(stdout, found)
	}
	var text bytes.Buffer
	if err := f.write(&text, found); err != nil {
		return err
	}
	return plainfile.Write(f.name, 0o666, text.Bytes())
}
