package cli

import (
	"debug/elf"
	"errors"
	"fmt"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/edit"
	"cuda-runpath/pkg/normal"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/tree"
)

// editor is what an editing binary does to the run path of each file.
type editor struct {
	edit.RunPaths
	normal.Settings
	// Offer is where the driver-provided stubs found are linked; "" for nowhere.
	Offer string

	session *session
	summary runSummary
}

// newEditor reads the editing flags.
func newEditor(c *command.Line) (*editor, error) {
	e := &editor{
		Settings: normal.Settings{
			DriverLink: c.String("driver-link"),
			Compat:     c.String("compat"),
			KeepEmpty:  c.Bool("keep-empty"),
			Dedupe:     c.Bool("dedupe"),
		},
		RunPaths: edit.RunPaths{
			ForceRPath:     c.Bool("force-rpath"),
			ClearExecStack: c.Bool("clear-execstack"),
			Temporary:      temporaryDirs(),
		},
	}
	switch position := c.String("position"); {
	case position == "first", !c.IsSet("position"):
	case position == "last":
		e.DriverLast = true
	default:
		return nil, command.Misusef("--position %q: first or last", position)
	}
	if err := checkLayout(c); err != nil {
		return nil, err
	}
	for _, link := range []string{e.DriverLink, driver.Link, driver.Link32} {
		if e.Compat != "" && runpath.Key(e.Compat) == runpath.Key(link) {
			return nil, command.Misusef("--compat %s is the driver link", e.Compat)
		}
	}
	return e, nil
}

// checkLayout refuses a --driver-link, --compat or --store that no run path should name, and a
// --stub that is not a valid pattern.
func checkLayout(c *command.Line) error {
	for _, flag := range []string{"driver-link", "compat", "store"} {
		if !c.IsSet(flag) {
			continue
		}
		if err := checkEntry(c.String(flag)); err != nil {
			return command.Misusef("--%s: %v", flag, err)
		}
	}
	for _, pattern := range c.StringSlice("stub") {
		if err := driver.CheckPattern(pattern); err != nil {
			return command.Misusef("--stub %v", err)
		}
	}
	return nil
}

// checkEntry tells what cannot be one entry of a run path that is safe to search.
func checkEntry(dir string) error {
	switch {
	case dir == "":
		return errors.New("an empty directory would be the working directory")
	case strings.Contains(dir, ":"):
		return fmt.Errorf("%q has a colon, which separates entries", dir)
	case strings.Contains(dir, "\x00"):
		return fmt.Errorf("%q has a NUL byte", dir)
	case !strings.HasPrefix(dir, "/") && !strings.HasPrefix(dir, "$"):
		return fmt.Errorf("%q is relative: the loader would search it below the working directory", dir)
	}
	return nil
}

// outcome is a file's report and what the log says of it.
type outcome struct {
	report fileReport
	level  logrus.Level
	line   string
	warn   []string
	stubs  []string // stub directories to offer from, expanded
	// The run path before the edit and after it.
	from, to edit.State
}

// run edits the session's files. It returns command.ErrFailed where a file failed, after
// all others were done.
func (e *editor) run(s *session) error {
	// Should nobody read what we say any more, finish the files all the same, and
	// let the exit status tell. The signal would end us between two of them.
	signal.Ignore(unix.SIGPIPE)
	e.Options, e.Normal, e.RunPaths.Offer = s.Options, normal.New(e.Settings), e.Offer != ""
	e.session, e.summary = s, runSummary{DryRun: s.DryRun}
	offered := e.Normal.OfferIn(e.Offer)
	var inherited inheritance
	var notELF atomic.Int64 // most files of most trees
	run := sweep[*outcome]{
		options: tree.Options{Leftover: s.leftover()},
		visit: func(f *tree.File) (*outcome, bool) {
			if f.Err == nil && !f.ELF() && !s.JSON && !s.Verbose {
				notELF.Add(1)
				return nil, false
			}
			return e.visit(f), true
		},
		tell: func(o *outcome) any {
			e.summary.count(o.report.Action)
			if o.line != "" && s.Log.IsLevelEnabled(o.level) {
				s.Log.WithField("path", o.report.Path).Log(o.level, o.line)
			}
			for _, w := range o.warn {
				s.Log.WithField("path", o.report.Path).Warn(w)
			}
			offered.From(o.stubs)
			inherited.add(o)
			return &o.report
		},
		end: func(stopped string) any {
			e.summary.Skipped += int(notELF.Load())
			e.summary.Stopped = stopped
			inherited.tell(s)
			for _, err := range offered.Errs {
				s.Log.Errorf("--offer %s: %v", e.Offer, err)
			}
			if e.Offer != "" {
				s.Log.Infof("offered in %s: %s", e.Offer, listOr(offered.Names(), "no driver-provided stub found"))
			}
			return &e.summary
		},
		line: e.summary.String,
	}
	if err := run.run(s); err != nil {
		return err
	}
	if e.summary.Failed > 0 || len(offered.Errs) > 0 {
		return command.ErrFailed
	}
	return nil
}

func listOr(names []string, none string) string {
	if len(names) == 0 {
		return none
	}
	return strings.Join(names, ", ")
}

// visit edits one file. It runs in several goroutines.
func (e *editor) visit(f *tree.File) *outcome {
	r := e.File(f)
	o := &outcome{stubs: r.Stubs, from: r.Before, to: r.After, report: fileReport{
		Path: f.Path, PathBytes: pathBytes(f.Path), Action: r.Action, Reason: reasonOf(f, &r.Result),
		Tag: tagName(r.After.Tag), Before: entriesOf(r.Before.List), After: entriesOf(r.After.List),
	}}
	e.notes(o, r)
	switch r.Action {
	case edit.Failed:
		o.level, o.line = logrus.ErrorLevel, r.Err.Error()
		if e.session.tolerates(f, r.Err) {
			o.report.Action, o.level, o.line = edit.Skipped, logrus.WarnLevel, "skipped: "+r.Err.Error()
		}
	case edit.Skipped:
		o.level, o.line = logrus.DebugLevel, "skipped: "+o.report.Reason
	case edit.Unchanged:
		o.level, o.line = logrus.DebugLevel, "unchanged"
		if notes := o.report.Notes; len(notes) > 0 {
			o.line += " (" + command.Printable(strings.Join(notes, "; ")) + ")"
		}
	case edit.Edited:
		switch o.level = logrus.InfoLevel; {
		case !e.session.Log.IsLevelEnabled(o.level): // the line need not be put together
		case r.ClearedStack && r.Before.Tag == r.After.Tag && slices.Equal(r.Before.List, r.After.List):
			o.line = command.Printable(strings.Join(o.report.Notes, "; "))
		default:
			o.line = changeLine(r.Before.Tag, r.After.Tag, r.Before.List.String(), r.After.List.String(), o.report.Notes)
		}
		for _, name := range r.MovedNotes {
			o.warn = append(o.warn, "moved the note "+name+", whose owner may have relied on its place")
		}
		o.warn = append(o.warn, leftLinks(r.LeftLinks)...)
		if r.Shadowed != nil {
			lost := fmt.Sprintf("DT_RPATH %q is lost; the loader ignored it, because the file also has a DT_RUNPATH", *r.Shadowed)
			o.report.Notes, o.warn = append(o.report.Notes, lost), append(o.warn, lost)
		}
	}
	return o
}

// reasonOf returns why a file was skipped or failed.
func reasonOf(f *tree.File, r *edit.Result) string {
	switch {
	case r.Err != nil:
		return r.Err.Error()
	case r.Action == edit.Skipped && f.SameAs != "":
		return "the same file as " + command.Printable(f.SameAs)
	}
	return r.Reason
}

// leftLinks says that n names are left with the old file.
func leftLinks(n int) []string {
	switch n {
	case 0:
		return nil
	case 1:
		return []string{"has another hard link, which leads to the old file"}
	default:
		return []string{fmt.Sprintf("has %d other hard links, which lead to the old file", n)}
	}
}

// notes turns what the maps noted into sentences for the report, and into warnings
// where something is missing.
func (e *editor) notes(o *outcome, result *edit.RunPathResult) {
	r, n := &o.report, result.Notes
	add := func(format string, args ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, args...)) }
	for _, dir := range n.Stubs {
		add("removed stub directory %s", dir)
	}
	for _, dir := range n.Unused {
		add("removed %s, which nothing uses", dir)
	}
	for i, name := range result.Opens {
		add("%s", openedLine(name, result.OpenDirs[i]))
	}
	for _, name := range n.DriverFor {
		add("needs %s, which no other entry holds", name)
	}
	if n.Empties > 0 && e.KeepEmpty {
		add("kept %s, for which the loader searches the working directory", count(n.Empties, "empty entry", "empty entries"))
	} else if n.Empties > 0 {
		add("dropped %s, for which the loader searched the working directory", count(n.Empties, "empty entry", "empty entries"))
	}
	for _, dir := range n.Duplicates {
		if e.Dedupe {
			add("removed duplicate %s", dir)
		} else {
			add("duplicate entry %s", dir)
		}
	}
	if result.ClearedStack {
		add("no longer asks for an executable stack")
	}
	r.Missing = n.Missing
	for _, name := range n.Missing {
		o.warn = append(o.warn, fmt.Sprintf("missing library %s: only the removed stub directory offered it, and it does not come with the driver", name))
	}
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// changeLine is the log's line for an edited file: "OLD -> NEW (notes)".
func changeLine(oldTag, newTag elf.DynTag, before, after string, notes []string) string {
	show := func(tag elf.DynTag, list string) string {
		switch {
		case tag == elf.DT_NULL:
			return "(no run path)"
		case oldTag != newTag && oldTag != elf.DT_NULL && newTag != elf.DT_NULL:
			return tagName(tag) + " " + command.Printable(list)
		case list == "":
			return "(empty)"
		}
		return command.Printable(list)
	}
	line := show(oldTag, before) + " -> " + show(newTag, after)
	if len(notes) > 0 {
		line += " (" + command.Printable(strings.Join(notes, "; ")) + ")"
	}
	return line
}

func tagName(tag elf.DynTag) string {
	if tag == elf.DT_NULL {
		return ""
	}
	return tag.String()
}

// entriesOf never returns nil: JSON shows an empty run path as [].
func entriesOf(l runpath.List) []string {
	if l == nil {
		return []string{}
	}
	return l
}
