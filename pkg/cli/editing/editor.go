package editing

import (
	"cmp"
	"debug/elf"
	"fmt"
	"os/signal"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/flags"
	"cuda-runpath/pkg/cli/walk"
	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/edit"
	"cuda-runpath/pkg/normal"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/tree"
)

// Editor carries out what an editing tool is asked to do to the run path of each file.
type Editor struct {
	edit.RunPaths
	normal.Settings
	// Offer is where the driver-provided stubs found are linked; "" for nowhere.
	Offer   string
	session *walk.Session
}

// NewEditor reads the editing flags.
func NewEditor(c *command.Line) (*Editor, error) {
	e := &Editor{
		Settings: normal.Settings{
			DriverLink: c.String("driver-link"),
			DriverLast: c.String("position") == "last",
			Compat:     c.String("compat"),
			StubDirs:   flags.StubDirs(c),
			KeepEmpty:  c.Bool("keep-empty"),
			Dedupe:     c.Bool("dedupe"),

			CompatForStubs: c.Bool("compat-for-stubs"),
		},
		RunPaths: edit.RunPaths{
			Options:        Options(c),
			ForceRPath:     c.Bool("force-rpath"),
			ForceRunPath:   c.Bool("force-runpath"),
			ClearExecStack: c.Bool("clear-execstack"),
			Temporary:      temporaryDirs(),
			WhenNeeds:      c.String("when") == "needed",
		},
		Offer: c.String("offer"),
	}
	for _, link := range []string{e.DriverLink, driver.Link, driver.Link32} {
		if e.Compat != "" && runpath.Key(e.Compat) == runpath.Key(link) {
			return nil, command.Misusef("--compat %s is the driver link", e.Compat)
		}
	}
	return e, nil
}

// Options reads the flags that say how a file is edited.
func Options(c *command.Line) edit.Options {
	return edit.Options{DryRun: c.Bool("dry-run"), Copy: c.Bool("copy"),
		Note: &edit.Note{Write: c.Bool("resolution-note")}}
}

// outcome is a file's report, and what the walk needs of it at its end.
type outcome struct {
	walk.Report
	Missing []string `json:"missing,omitempty"` // needed libraries that only a removed stub directory offered

	result *edit.RunPathResult
}

// editFiles edits files as the editing flags and configure say.
func editFiles(c *command.Line, paths []string, configure func(*Editor) error) error {
	s, err := walk.Start(c, paths)
	if err != nil {
		return err
	}
	e, err := NewEditor(c)
	if err != nil {
		return err
	}
	if err := configure(e); err != nil {
		return err
	}
	return e.run(s)
}

// Apply adds the maps of tools to what is done.
func (e *Editor) Apply(names []string) error {
	for _, t := range Tools() {
		if slices.Contains(names, t.Name) {
			e.Maps |= t.Map
		}
	}
	if e.Maps&runpath.AddCompat != 0 && e.Compat == "" {
		return command.Misuse("--compat DIR is required")
	}
	return nil
}

// run edits the session's files. It returns command.ErrFailed where a file failed, after
// all others were done.
func (e *Editor) run(s *walk.Session) error {
	e.Normal, e.RunPaths.Offer = normal.New(e.Settings), e.Offer != ""
	e.session, e.Note.Maps = s, e.Normal
	offered := e.Normal.OfferIn(e.Offer)
	var moves []edit.Move // where the tag changes whatever that loses
	if !e.ForceRPath && !e.ForceRunPath && (e.Maps != 0 || e.Rewrite != nil) {
		e.Inherits = Inherits(e.session, e.Would)
	}
	err := Edits(s, e.visit, func(o *outcome) {
		offered.From(o.result.Stubs)
		if (e.ForceRunPath || e.Rewrite != nil) && !e.ForceRPath {
			moves = append(moves, edit.Move{Path: o.Path, From: o.result.Before, To: o.result.After})
		}
	}, func() {
		for _, loss := range edit.Losses(nil, moves) {
			s.Log.Warnf(
				"%s, was found by a DT_RPATH, which libraries inherit, and is not found so any more: they do not inherit a "+
					"DT_RUNPATH, nor what a list has no more; --force-rpath writes a DT_RPATH", loss)
		}
		for _, err := range offered.Errs {
			s.Log.Errorf("--offer %s: %v", e.Offer, err)
		}
		if e.Offer != "" {
			s.Log.Infof("offered in %s: %s", e.Offer, cmp.Or(strings.Join(offered.Names(), ", "),
				"no driver-provided stub found"))
		}
	})
	if err == nil && len(offered.Errs) > 0 {
		err = command.ErrFailed
	}
	return err
}

// Inherits tells what of the session's files inherits a DT_RPATH, of those that would is true for.
func Inherits(s *walk.Session, would func(*tree.File) (edit.Move, bool)) edit.Inherits {
	return edit.InheritsAmong(func(look func(*tree.File)) error {
		return walk.Walk(s, tree.Options{}, func(f *tree.File) (none struct{}, keep bool) {
			look(f)
			return none, false
		}, func(struct{}) {})
	}, would)
}

// Edits edits the session's files: visit one of them, in several goroutines. Files that are not
// ELF files, as most files of most trees, are counted, and told of where that is asked for.
func Edits[R walk.Reported](s *walk.Session, visit func(*tree.File) R, tell func(R), end func()) error {
	// Should nobody read what we say any more, finish the files all the same, and
	// let the exit status tell. The signal would end us between two of them.
	signal.Ignore(unix.SIGPIPE)
	return (&walk.Sweep[R]{
		Options: tree.Options{Leftover: s.Leftover(), Refuse: s.Refuse},
		Visit: func(f *tree.File) (r R, keep bool) {
			if f.Err == nil && !f.ELF() && !s.JSON && !s.Verbose && !s.Singled(f.Path) {
				return r, false
			}
			return visit(f), true
		},
		Tell: tell,
		End: func(sum *walk.Summary, dropped int) (any, string) {
			sum.Skipped += dropped
			end()
			return sum, sum.String()
		},
	}).Run(s)
}

// visit edits one file. It runs in several goroutines.
func (e *Editor) visit(f *tree.File) *outcome {
	r := e.File(f)
	o := &outcome{Edited(e.session, f, &r.Result, r.Before, r.After), r.Notes.Missing, r}
	o.Notes = e.notes(r)
	for _, name := range o.Missing {
		o.Warn = append(o.Warn, fmt.Sprintf(
			"missing library %s: only the removed stub directory offered it, and it does not come with the driver", name))
	}
	if len(r.Calls) > 0 {
		library, _ := driver.SymbolOwner(r.Calls[0])
		o.Warn = append(o.Warn, fmt.Sprintf(
			"refers to %s, which come with the driver's %s, and does not need that library: %s", remedy.List(r.Calls), library,
			remedy.Quote("runpath", "edit", "--add-needed", library, remedy.Operand(f.Path))))
	}
	if r.Action == tree.Edited && e.Maps&runpath.AddCompat != 0 && !slices.ContainsFunc(r.After.List, e.isLink) {
		o.Warn = append(o.Warn,
			"the run path has the compat directory and no driver link, where what the compat package's libraries need of the "+
				"host's driver is: see autoAddDriverRunpath")
	}
	switch notes := strings.Join(o.Notes, "; "); {
	case r.Action == tree.Unchanged && notes != "":
		o.Line += " (" + command.Printable(notes) + ")"
	case r.Action == tree.Edited && e.session.Quiet: // the line need not be put together
	case r.Reason == edit.Finished:
	case r.Action == tree.Edited && (r.ClearedStack || r.Note.Changed()) && r.Before.Tag == r.After.Tag &&
		slices.Equal(r.Before.List, r.After.List):
		o.Line = command.Printable(notes)
	case r.Action == tree.Edited:
		o.Line = ChangeLine(r.Before.Tag, r.After.Tag, r.Before.List.String(), r.After.List.String(), o.Notes)
	}
	if r.Shadowed != nil {
		lost := fmt.Sprintf("DT_RPATH %q is lost; the loader ignored it, because the file also has a DT_RUNPATH", *r.Shadowed)
		o.Notes, o.Warn = append(o.Notes, lost), append(o.Warn, lost)
	}
	return o
}

// isLink reports whether an entry is a driver link.
func (e *Editor) isLink(entry string) bool {
	return slices.Contains([]string{runpath.Key(e.Normal.DriverLink), driver.Link, driver.Link32}, runpath.Key(entry))
}

// Edited reports what came of a file that was to be edited.
func Edited(s *walk.Session, f *tree.File, r *edit.Result, before, after edit.State) walk.Report {
	o := walk.Report{Path: f.Path, Action: r.Action, Reason: r.Reason,
		Tag: TagName(after.Tag), Before: walk.EntriesOf(before.List), After: walk.EntriesOf(after.List),
		ResolutionNote: string(r.Note)}
	switch r.Action {
	case tree.Failed:
		if o.Reason = r.Err.Error(); s.Tolerates(f, r.Err) {
			o.Action, o.Level = tree.Skipped, logrus.WarnLevel
		}
	case tree.Unchanged:
		o.Line = "unchanged"
	case tree.Edited:
		o.Line = r.Reason
	}
	for _, name := range r.MovedNotes {
		o.Warn = append(o.Warn, "moved the note "+name+", whose owner may have relied on its place")
	}
	if r.Dropped != "" {
		o.Warn = append(o.Warn, "an edit of it was interrupted, and what that left about itself is not followed: "+r.Dropped)
	}
	if r.NoNote != nil {
		o.Warn = append(o.Warn, r.NoNote.Error())
	}
	o.LeftLinks(r.LeftLinks)
	return o
}

// notes turns what the maps noted into sentences.
func (e *Editor) notes(result *edit.RunPathResult) (notes []string) {
	n := result.Notes
	add := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	for _, dir := range n.Stubs {
		add("removed stub directory %s", dir)
	}
	for _, dir := range n.Unused {
		add("removed %s, which nothing uses", dir)
	}
	for i, name := range result.Opens {
		add("%s", OpenedLine(name+" is opened by name", result.OpenDirs[i]))
	}
	for _, name := range n.DriverFor {
		add("needs %s, which no other entry holds", name)
	}
	if n.Empties > 0 && e.KeepEmpty {
		add("kept %s, for which the loader searches the working directory",
			walk.Count(n.Empties, "empty entry", "empty entries"))
	} else if n.Empties > 0 {
		add("dropped %s, for which the loader searched the working directory",
			walk.Count(n.Empties, "empty entry", "empty entries"))
	}
	for _, dir := range n.Duplicates {
		if e.Dedupe {
			add("removed duplicate %s", dir)
		} else {
			add("duplicate entry %s", dir)
		}
	}
	if result.KeptRPath != nil && result.After.Tag == elf.DT_RPATH {
		add("%s", KeptRPath(*result.KeptRPath))
	}
	if result.ClearedStack {
		add("no longer asks for an executable stack")
	}
	if result.Note.Changed() {
		add("%s", NoteLine(result.Note))
	}
	return notes
}

// KeptRPath says why a file has a DT_RPATH.
func KeptRPath(loss edit.Loss) string {
	return fmt.Sprintf(
		"DT_RPATH, as %s, is found by one that libraries inherit; --force-runpath writes DT_RUNPATH all the same", loss)
}

func NoteLine(r edit.NoteResult) string { return "resolution note " + string(r) }

// ChangeLine is the log's line for an edited file: "OLD -> NEW (notes)".
func ChangeLine(oldTag, newTag elf.DynTag, before, after string, notes []string) string {
	show := func(tag elf.DynTag, list string) string {
		switch {
		case tag == elf.DT_NULL:
			return "(no run path)"
		case oldTag != newTag && oldTag != elf.DT_NULL && newTag != elf.DT_NULL:
			return TagName(tag) + " " + command.Printable(list)
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

func TagName(tag elf.DynTag) string {
	if tag == elf.DT_NULL {
		return ""
	}
	return tag.String()
}

// OpenedLine says what an entry for libraries that are opened by name adds.
func OpenedLine(why, dir string) string {
	root, size := normal.Weigh(dir)
	return fmt.Sprintf("%s: %s is added, a package of %d bytes", why, root, size)
}
