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
	"cuda-runpath/pkg/elfedit"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/normal"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/tree"
)

// editor is what an editing binary does to the run path of each file.
// Several maps in one editor cost one walk and one open per file.
type editor struct {
	normal.Settings
	ForceRPath bool
	// ClearExecStack takes the request for an executable stack out, in the same edit.
	ClearExecStack bool

	Maps      runpath.Map
	WhenNeeds bool // AddDriverLink only where the file needs the driver
	// Rewrite replaces the maps where it is not nil.
	Rewrite func(runpath.List) runpath.List
	// Shrink, where it is not nil, drops unused entries instead, but those that it tells.
	Shrink func(entry string) bool
	// Offer is where the driver-provided stubs found are linked; "" for nowhere.
	Offer string

	session *session
	maps    *normal.Maps
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
		ForceRPath:     c.Bool("force-rpath"),
		ClearExecStack: c.Bool("clear-execstack"),
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

// checkLayout refuses a --driver-link or --compat that no run path should name, and a
// --stub that is not a valid pattern.
func checkLayout(c *command.Line) error {
	for _, flag := range []string{"driver-link", "compat"} {
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
}

// run edits the session's files. It returns command.ErrFailed where a file failed, after
// all others were done.
func (e *editor) run(s *session) error {
	// Should nobody read what we say any more, finish the files all the same, and
	// let the exit status tell. The signal would end us between two of them.
	signal.Ignore(unix.SIGPIPE)
	e.session, e.maps = s, normal.New(e.Settings)
	e.summary = runSummary{DryRun: s.DryRun}
	offered := e.maps.OfferIn(e.Offer)
	var notELF atomic.Int64 // most files of most trees
	run := sweep[*outcome]{
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
			return &o.report
		},
		end: func(stopped string) any {
			e.summary.Skipped += int(notELF.Load())
			e.summary.Stopped = stopped
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
	o := &outcome{report: fileReport{Path: f.Path, PathBytes: pathBytes(f.Path), Before: []string{}, After: []string{}}}
	err := e.guarded(f, o)
	if err == nil {
		return o
	}
	o.report.After = o.report.Before
	o.report.Action, o.level, o.line = actionFailed, logrus.ErrorLevel, err.Error()
	if e.session.tolerates(f, err) {
		o.report.Action, o.level, o.line = actionSkipped, logrus.WarnLevel, "skipped: "+err.Error()
	}
	o.report.Reason, o.warn = err.Error(), nil
	again(f, func(im *elfimage.Image) {
		if tag, list, err := im.RunPath(); err == nil {
			o.report.Tag, o.report.After = tagName(tag), entriesOf(runpath.Parse(list))
		}
	})
	return o
}

// again calls look with what is in a file of which an edit has failed: it may have been
// written all the same, or in part.
func again(f *tree.File, look func(*elfimage.Image)) {
	if f.Err != nil || !f.ELF() {
		return
	}
	now, err := f.Again()
	if err != nil {
		return
	}
	defer now.Close()
	im, err := elfimage.ParseHead(now, now.Size(), now.Head())
	if err != nil {
		return
	}
	defer im.Release()
	look(im)
}

// guarded makes a fault of this program a failure of the one file that showed it:
// the others are still done. What is planned is planned before the first write.
func (e *editor) guarded(f *tree.File, o *outcome) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("internal error: %v; please report it, with the file", fault)
		}
		err = f.Blame(err)
	}()
	return e.edit(f, o)
}

func (o *outcome) skip(reason string) {
	o.report.Action, o.report.Reason = actionSkipped, reason
	o.level, o.line = logrus.DebugLevel, "skipped: "+reason
}

func (e *editor) edit(f *tree.File, o *outcome) error {
	r := &o.report
	switch {
	case f.Err != nil:
		return f.Err
	case !f.ELF():
		o.skip(string(elfimage.NotELF))
		return nil
	case f.SameAs != "":
		o.skip("the same file as " + command.Printable(f.SameAs))
		return nil
	}
	im, err := elfimage.ParseKept(f, f.Size(), f.Head())
	if err != nil {
		return err
	}
	defer im.Release()
	if reason := im.SkipReason(); reason != "" {
		o.skip(string(reason))
		return nil
	}
	tag, list, err := im.RunPath()
	if err != nil {
		return err
	}
	shadowed, both, err := im.Shadowed()
	if err != nil {
		return err
	}
	before := runpath.Parse(list)
	r.Tag, r.Before = tagName(tag), entriesOf(before)
	r.After = r.Before
	maps, rewrites := e.Maps, true
	if e.WhenNeeds {
		needs, err := normal.NeedsDriver(im)
		if err != nil {
			return err
		}
		if !needs {
			maps &^= runpath.AddDriverLink
		}
		if rewrites = maps != 0; !rewrites && !e.clears(im) {
			o.skip("does not need the driver")
			return nil
		}
	}

	after, notes := before, runpath.Notes{}
	if rewrites {
		if after, notes, err = e.rewrite(im, f.Path, before, maps); err != nil {
			return err
		}
	}
	if e.Offer != "" {
		o.stubs = e.maps.StubsAmong(f.Path, before)
		if e.session.DryRun {
			r.Action = actionUnchanged
			return nil
		}
	}
	change := elfedit.RunPath{Tag: elf.DT_RUNPATH, List: after.String()}
	if e.ForceRPath {
		change.Tag = elf.DT_RPATH
	}
	if change.List == "" {
		change.Tag = elf.DT_NULL
	}
	e.notes(o, notes)
	all := elfedit.Change{RunPath: &change}
	if !rewrites || change.List == list && !both && (tag == change.Tag || list == "") {
		all.RunPath, change.Tag, change.List, after = nil, tag, list, before
	}
	if e.clears(im) {
		all.ExecStack = new(bool)
		r.Notes = append(r.Notes, "no longer asks for an executable stack")
	}
	if all.RunPath == nil && all.ExecStack == nil {
		e.unchanged(o)
		return nil
	}
	plan, err := elfedit.Plan(im, all)
	if err != nil {
		return err
	}
	if plan == nil {
		e.unchanged(o)
		return nil
	}
	if !e.session.DryRun {
		if err := f.Write(func(w tree.Writer) error { return plan.Apply(w) }); err != nil {
			return err
		}
	}
	for _, name := range plan.MovedNotes() {
		o.warn = append(o.warn, "moved the note "+name+", whose owner may have relied on its place")
	}
	if e.session.Copy {
		o.warn = append(o.warn, leftLinks(f)...)
	}
	r.Action, r.After, r.Tag = actionEdited, entriesOf(after), tagName(change.Tag)
	switch o.level = logrus.InfoLevel; {
	case !e.session.Log.IsLevelEnabled(o.level): // the line need not be put together
	case all.RunPath == nil:
		o.line = command.Printable(strings.Join(r.Notes, "; "))
	default:
		o.line = changeLine(tag, change.Tag, list, change.List, r.Notes)
	}
	if both && all.RunPath != nil {
		lost := fmt.Sprintf("DT_RPATH %q is lost; the loader ignored it, because the file also has a DT_RUNPATH", shadowed)
		r.Notes, o.warn = append(r.Notes, lost), append(o.warn, lost)
	}
	return nil
}

// leftLinks says which names the edit of a copy leaves with the old file.
func leftLinks(f *tree.File) []string {
	switch n := f.OtherLinks(); n {
	case 0:
		return nil
	case 1:
		return []string{"has another hard link, which leads to the old file"}
	default:
		return []string{fmt.Sprintf("has %d other hard links, which lead to the old file", n)}
	}
}

// clears reports whether the file asks for an executable stack, and is not to.
func (e *editor) clears(im *elfimage.Image) bool {
	stack := im.Prog(elf.PT_GNU_STACK)
	return e.ClearExecStack && stack != nil && stack.Flags&elf.PF_X != 0
}

func (e *editor) unchanged(o *outcome) {
	o.report.Action = actionUnchanged
	o.level, o.line = logrus.DebugLevel, "unchanged"
	if notes := o.report.Notes; len(notes) > 0 {
		o.line += " (" + command.Printable(strings.Join(notes, "; ")) + ")"
	}
}

// rewrite returns the run path as it is to be.
func (e *editor) rewrite(im *elfimage.Image, path string, before runpath.List, maps runpath.Map) (runpath.List, runpath.Notes, error) {
	if e.Shrink != nil {
		return e.maps.Shrink(im, path, before, e.Shrink, temporaryDirs())
	}
	if e.Rewrite != nil {
		after := e.Rewrite(before)
		notes := runpath.Notes{Empties: after.Empties(), Duplicates: after.Duplicates()}
		if !e.KeepEmpty {
			after = slices.DeleteFunc(slices.Clone(after), func(entry string) bool { return entry == "" })
		}
		if e.Dedupe {
			after = after.Unique()
		}
		return after, notes, nil
	}
	file := normal.File{Path: path, Class: im.Class, Machine: im.Machine}
	if maps&runpath.ReplaceStubs != 0 {
		needed, err := im.Needed()
		if err != nil {
			return nil, runpath.Notes{}, err
		}
		file.Needed = needed
	}
	after, notes := e.maps.Apply(file, before, maps)
	return after, notes, nil
}

// notes turns what the maps noted into sentences for the report, and into warnings
// where something is missing.
func (e *editor) notes(o *outcome, n runpath.Notes) {
	r := &o.report
	add := func(format string, args ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, args...)) }
	for _, dir := range n.Stubs {
		add("removed stub directory %s", dir)
	}
	for _, dir := range n.Unused {
		add("removed %s, which nothing uses", dir)
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
