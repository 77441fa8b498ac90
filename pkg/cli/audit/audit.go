package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/sirupsen/logrus"

	"cuda-runpath/pkg/audit"
	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/findings"
	"cuda-runpath/pkg/cli/flags"
	"cuda-runpath/pkg/cli/gpu"
	"cuda-runpath/pkg/cli/loading"
	"cuda-runpath/pkg/cli/session"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/inorder"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/plainfile"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/scripts"
	"cuda-runpath/pkg/starts"
	"cuda-runpath/pkg/tree"
)

// Command returns the command audit.
func Command() *command.Command {
	return &command.Command{
		Name:   "audit",
		Common: []string{"strict", "baseline", "sarif", "explain", "json", "verbose"},
		Usage:  "report everything that is wrong with the run paths of files",
		Examples: `runpath audit app
runpath audit --sarif findings.sarif --baseline accepted app`,
		ArgsUsage:   "PATH...",
		Description: "A PATH is a file, a directory or a store path.",
		Flags: append(append([]*command.Flag{
			{Name: "closure", Usage: "also examine all that the PATHs, which are in a Nix store, need (nix-store -qR); not with --root"},
			{Kind: command.String, Name: "html",
				Usage: "write a page with a table of the findings and each file's libraries to `FILE`, - for stdout"},
			{Kind: command.String, Name: "sarif",
				Usage: "write the findings as SARIF 2.1.0, for code scanning, to `FILE`, - for stdout"},
			{Kind: command.String, Name: "baseline", Usage: "the findings in `FILE` are accepted"},
			{Name: "update-baseline", Usage: "write all findings to the --baseline file, so that they are accepted"},
			{Kind: command.List, Name: "ignore-finding", Words: kinds,
				Usage: "leave out findings of the kind `ID` (repeatable)"},
			{Name: "list-findings", Usage: "list the kinds of findings, and examine nothing"},
			{Kind: command.String, Name: "explain", Words: kinds,
				Usage: "say what the kind of finding `ID` is about, and examine nothing"},
			{Name: "fix", Values: []string{"true", "false", "all"},
				Usage: "carry out the remedies of errors and warnings that change one file here, without a condition: stub " +
					"directories, the driver link, empty entries, directories of a build; with --fix=all also what may be meant " +
					"otherwise; autoPatchelf --undo takes it back"},
			flags.Writing[0], command.DryRunFlag,
			findings.InPackage, command.RootFlag, findings.Ignore, flags.Strict, loading.AssumeDriver, loading.CPU,
			loading.ReadsNote, gpu.For,
		}, flags.Search...), flags.Tree...),
		Action: func(c *command.Line) error {
			if c.Bool("list-findings") || c.IsSet("explain") {
				return explainFindings(c)
			}
			s, err := session.Start(c, findings.RootOr(c))
			if err != nil {
				return err
			}
			return s.OrStopped(auditPaths(s, c), func(why string) any { return &explain.Summary{Stopped: why} })
		},
	}
}

// kinds are the kinds of findings, for completion.
func kinds() (words []command.Word) {
	for _, r := range finding.Situations() {
		words = append(words, command.Word{Word: r.ID, Means: r.Summary})
	}
	return words
}

// auditPaths carries out what a command line of audit asks for.
func auditPaths(s *session.Session, c *command.Line) error {
	every, err := findings.Options(c)
	if err != nil {
		return err
	}
	options := audit.Options{Options: every, Loads: c.String("html") != ""}
	if options.GPUs, err = gpu.Targets(s, c, gpu.General); err != nil {
		return err
	}
	options.CompatVerdict = host.CompatJudge(c.String("root"), c.String("assume-driver"))
	out := auditOutput{closure: c.Bool("closure"), rooted: c.String("root") != "", sarif: c.String("sarif"),
		html: c.String("html"), baseline: c.String("baseline"), ignore: c.StringSlice("ignore-finding")}
	if out.accepted.Update = c.Bool("update-baseline"); out.accepted.Update && out.baseline == "" {
		return command.Misuse("--update-baseline needs --baseline FILE")
	}
	if !out.rooted {
		out.accepted.Dir = filepath.Dir(out.baseline)
	}
	for _, id := range out.ignore {
		if !finding.Known(id) {
			return command.Misusef("--ignore-finding %s: there is no such finding (--list-findings lists them)", id)
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
		if out.rooted {
			return command.Misuse("--closure asks this machine's Nix, which does not know a store below --root")
		}
		if out.roots, out.all, err = audit.Closure(s.Paths); err != nil {
			return err
		}
		s.Paths = slices.Clone(out.all)
	}
	search, err := loading.Options(c)
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
	if !s.InPackage && !options.Noted {
		options.Imported = starts.Importing(s.Context, l, s.Paths)
		options.Openers = starts.OpenersOf(l, s.Paths)
	}
	if what := c.String("fix"); what == "true" || what == "all" {
		if l, err = fix(s, c, l, options, &out); err == nil && l == nil {
			l, err = loader.New(search)
		}
		if err != nil {
			return err
		}
	} else if s.DryRun || c.Bool("in-place") {
		return command.Misuse("--dry-run and --in-place are for --fix")
	}
	return runAudit(s, audit.New(l, options), findings.Rooted(c, l, s), out)
}

// explainFindings says what kinds of findings there are, or what one is about.
func explainFindings(c *command.Line) error {
	if len(c.Args) > 0 {
		return command.Misusef("--list-findings and --explain examine nothing: %q", c.Arg(0))
	}
	rules := finding.Situations()
	if id := c.String("explain"); c.IsSet("explain") {
		i := slices.IndexFunc(rules, func(r finding.Situation) bool { return r.ID == id })
		if i < 0 {
			return command.Misusef("--explain %s: there is no such finding (--list-findings lists them)", id)
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
	roots, all  []string // where closure: the store paths that were named, and with what they need
}

// auditing is one run over the files of a session.
type auditing struct {
	*session.Session
	auditOutput
	whole *audit.Audit             // what is known of all files together
	in    func(host string) string // what names files as the system below the root does
	links []string                 // that lead out of the paths, and are audited too
	found audited
	// How far it is, for the line that says so until stop is called.
	visited, known atomic.Int64
	stop           func()
}

// runAudit reports everything that is wrong with the run path of each file. It
// returns command.ErrFailed where there is an error that the baseline does not have, or a
// file could not be examined.
func runAudit(s *session.Session, whole *audit.Audit, in func(string) string, o auditOutput) error {
	if err := o.read(); err != nil {
		return err
	}
	r := &auditing{Session: s, auditOutput: o, whole: whole, in: in, found: audited{paths: s.Paths}}
	r.stop = s.Progress(func() string {
		return fmt.Sprintf("%d files examined, %d findings", r.visited.Load(), r.known.Load())
	})
	if !o.rooted {
		r.links = audit.Farm(s.Paths)
		s.Paths = slices.Concat(s.Paths, r.links)
	}
	failed := (&session.Sweep[*examined]{
		Options: tree.Options{FollowArguments: true}, Visit: r.visit, Together: r.together, Tell: r.tell, End: r.end,
	}).Run(s)
	if failed != nil && !errors.Is(failed, command.ErrFailed) {
		return failed
	}
	if err := r.save(); err != nil {
		return err
	}
	if r.found.summary.Bad() {
		return command.ErrFailed
	}
	return failed
}

// named reports whether a file is one of the paths that were named.
func (r *auditing) named(path string) bool {
	return !r.closure && slices.Contains(r.found.paths, path)
}

// examined is a file, whose report is made when all are known.
type examined struct {
	findings.Checked
	pending *audit.Pending
}

// visit takes a file, of which the report is made when all are known. It runs in several goroutines.
func (r *auditing) visit(f *tree.File) (*examined, bool) {
	r.visited.Add(1)
	path := r.in(f.Path)
	pending := func(about *explain.Report) *examined {
		return &examined{pending: audit.NewPending(about)}
	}
	switch {
	case f.Err == nil && !f.ELF():
		text, lang, err := scripts.Read(f)
		if err != nil {
			return pending(explain.NewFailed(path, err)), true
		}
		about := r.whole.Script(path, f.Head(), text, lang)
		if about == nil && r.named(f.Path) {
			about = explain.NewSkipped(f.Path, string(elfimage.NotELF))
		}
		return pending(about), about != nil
	case f.Err == nil && f.SameAs != "":
		return &examined{pending: r.whole.TakeLink(path, r.in(f.SameAs))}, true
	}
	if about := findings.Unexamined(f, r.in); about != nil {
		return pending(about), true
	}
	return &examined{pending: r.whole.Take(path, f.FD())}, true
}

// together examines all files, and adds what only all of them show.
func (r *auditing) together(all []*examined) ([]*examined, error) {
	r.found.summary.Skipped = int(r.visited.Load()) - len(all)
	var seen []*audit.Pending
	// What the walk has opened is read by now, and so is not opened again.
	inorder.Do(r.Jobs, len(all), func(i int) bool {
		if r.Context.Err() != nil {
			return false
		}
		r.known.Add(int64(r.whole.Examine(all[i].pending)))
		return true
	}, func(done bool) {
		if done {
			seen = append(seen, all[len(seen)].pending)
		}
	})
	r.stop()
	if len(seen) < len(all) {
		return all[:len(seen)], &tree.Stopped{Visited: len(seen), Cause: context.Cause(r.Context)}
	}
	seen = append(seen, r.whole.OtherWays(r.links, seen)...)
	if !r.closure {
		inside := make([]string, len(r.found.paths))
		for i, p := range r.found.paths {
			inside[i] = r.in(p)
		}
		seen = append(seen, r.whole.Unchecked(inside, seen)...)
	}
	for _, p := range seen[len(all):] {
		all = append(all, &examined{pending: p})
	}
	return all, nil
}

// tell finishes the report of a file.
func (r *auditing) tell(c *examined) {
	about := r.whole.Finish(c.pending)
	about.Ignore(r.ignore)
	r.accepted.Accept(about)
	r.found.summary.Count(about)
	if c.Checked = *findings.CheckedFile(about); c.Action == tree.Skipped && c.Level == 0 && r.named(about.Path) {
		c.Level = logrus.InfoLevel
	}
	r.found.reports = append(r.found.reports, about)
}

// missing is a kind of finding on a library that is not found. part: only modules of Python's lack it that no import
// reaches.
type missing struct {
	severity finding.Severity
	part     bool
}

// lacking is what has findings of such a kind, those that are alike counted once.
type lacking struct {
	findings     int
	names, files []string
}

// missing says of which kind a finding is; ok is false if it is of none, and if all are to be shown.
func (r *auditing) missing(f *finding.Finding) (m missing, ok bool) {
	return missing{f.Severity, f.Part && f.ID == finding.Unresolved && f.Severity == finding.Warning},
		finding.Missing(f.ID) && f.Severity != finding.Note && !f.Accepted && !r.Verbose
}

// end prints the findings, those that are alike as one. Of many missing libraries it prints the names.
func (r *auditing) end(all *session.Summary, _ int) (any, string) {
	sum := &r.found.summary
	sum.Stopped, sum.Gone = all.Stopped, r.accepted.Gone(r.ignore)
	groups := audit.Groups(r.found.reports)
	lacks := map[missing]*lacking{}
	for _, g := range groups {
		if m, ok := r.missing(&g.Finding); ok {
			if lacks[m] == nil {
				lacks[m] = &lacking{}
			}
			l := lacks[m]
			l.findings++
			l.names, l.files = remedy.Union(l.names, []string{g.Finding.Library}), remedy.Union(l.files, g.Files)
		}
	}
	for _, m := range []missing{{finding.Warning, true}, {finding.Warning, false}, {finding.Error, false}} {
		l := lacks[m]
		if l == nil || !m.part && l.findings <= session.FewLacking {
			delete(lacks, m)
			continue
		}
		text := session.Lacking(l.names, session.Count(len(l.files), "file", "files"))
		if m.part {
			text = session.Unreached(l.names)
		}
		r.Say("%s: %s: %s", command.Printable(remedy.Common(l.files)), findings.Severity(r.Session, m.severity), text)
	}
	for _, g := range groups {
		if m, ok := r.missing(&g.Finding); !ok || lacks[m] == nil {
			findings.Print(r.Session, g.Names(), &g.Finding, findings.Fix(r.Session, &g.Finding, g.Fix()))
		}
	}
	if counts := audit.Counts(groups, r.Verbose); counts != "" && !r.Quiet {
		r.Say("%s", counts)
	}
	if r.closure && sum.Stopped == "" {
		var err error
		if sum.KeptByNotes, err = audit.KeptByNotes(r.roots, r.all, r.found.reports); err != nil {
			r.Log.Error(err)
			sum.Failed++
		} else if len(sum.KeptByNotes) > 0 && !r.Quiet {
			r.Say("%s", audit.KeptText(sum.KeptByNotes))
		}
	}
	return sum, sum.Line(r.Verbose)
}

// save writes the files that were asked for.
func (r *auditing) save() error {
	if r.found.summary.Stopped != "" { // such a run has not seen all that is accepted
		r.accepted.Update = false
	}
	for _, f := range r.files() {
		if err := f.save(r.Stdout, &r.found); err != nil {
			return err
		}
	}
	if r.accepted.Update && !r.Quiet {
		r.Say("%s: %s", command.Printable(r.baseline),
			session.Count(r.accepted.Len(), "accepted finding", "accepted findings"))
	}
	return nil
}

// read reads the baseline.
func (o *auditOutput) read() error {
	if o.baseline == "" || o.accepted.Update {
		return nil
	}
	const most = 64 << 20
	text, err := regular.Read(o.baseline, most)
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
	reports []*explain.Report
	summary explain.Summary
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
