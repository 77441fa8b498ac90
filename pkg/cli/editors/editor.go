package editors

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/normalform"
	"cuda-runpath/pkg/cli/session"
	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/driver/symbols"
	"cuda-runpath/pkg/edit/runpaths"
	"cuda-runpath/pkg/normal"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/tree"
)

// Editor carries out what an editing tool is asked to do to the run path of each file.
type Editor struct {
	runpaths.Edit
	normal.Settings
	// Offer is where the driver-provided stubs found are linked; "" for nowhere.
	Offer   string
	session *session.Session
}

// newEditor reads the editing flags.
func newEditor(c *command.Line) (*Editor, error) {
	settings, err := normalform.Settings(c)
	if err != nil {
		return nil, err
	}
	return &Editor{
		Settings: settings,
		Edit: runpaths.Edit{
			Options:        Options(c),
			Tag:            Tag(c),
			ClearExecStack: c.Bool("clear-execstack"),
			WhenNeeds:      c.String("when") == "needed",
		},
		Offer: c.String("offer"),
	}, nil
}

// outcome is a file's report, and what the walk needs of it at its end.
type outcome struct {
	session.Report
	Missing []string `json:"missing,omitempty"` // needed libraries that only a removed stub directory offered

	result *runpaths.Result
}

// Files edits files as the editing flags and configure say.
func Files(c *command.Line, paths []string, configure func(*Editor) error) error {
	s, err := session.Start(c, paths)
	if err != nil {
		return err
	}
	e, err := newEditor(c)
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
	maps, err := normalform.MapsOf(names, e.Compat)
	e.Maps |= maps
	return err
}

// run edits the session's files. It returns command.ErrFailed where a file failed, after
// all others were done.
func (e *Editor) run(s *session.Session) error {
	e.Normal, e.Edit.Offer = normal.New(e.Settings), e.Offer != ""
	e.session, e.Note.Maps = s, e.Normal
	offered := runpaths.OfferIn(e.Offer, e.Normal)
	err := Run(s, e.visit, func(o *outcome) {
		offered.From(o.result.Stubs)
	}, func() {
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

// visit edits one file. It runs in several goroutines.
func (e *Editor) visit(f *tree.File) *outcome {
	r := e.File(f)
	o := &outcome{Report(e.session, f, &r.Result, r.Before, r.After), r.Notes.Missing, r}
	o.Notes = e.notes(r)
	for _, name := range o.Missing {
		o.Warn = append(o.Warn, fmt.Sprintf(
			"missing library %s: only the removed stub directory offered it, and it does not come with the driver", name))
	}
	if len(r.Calls) > 0 {
		library, _ := symbols.Owner(r.Calls[0])
		o.Warn = append(o.Warn, fmt.Sprintf(
			"refers to %s, which come with the driver's %s, and does not need that library: %s", remedy.List(r.Calls), library,
			remedy.Quote("runpath", "edit", "--add-needed", library, remedy.Operand(f.Path))))
	}
	if r.Action == tree.Edited && e.Maps&runpath.AddCompat != 0 && !slices.ContainsFunc(r.After.List, e.isLink) {
		o.Warn = append(o.Warn,
			"the run path has the compat directory without the driver link, which has the driver's other libraries that the "+
				"compat package needs: autoAddDriverRunpath adds it")
	}
	switch notes := strings.Join(o.Notes, "; "); {
	case r.Action == tree.Unchanged && notes != "":
		o.Line += " (" + command.Printable(notes) + ")"
	case r.Action == tree.Edited && e.session.Quiet: // the line need not be put together
	case r.Action == tree.Edited && (r.ClearedStack || r.Note.Changed()) && r.Before.Tag == r.After.Tag &&
		slices.Equal(r.Before.List, r.After.List):
		o.Line = command.Printable(notes)
	case r.Action == tree.Edited:
		o.Line = normalform.ChangeLine(r.Before.Tag, r.After.Tag, r.Before.List.String(), r.After.List.String(), o.Notes)
	}
	if r.Shadowed != nil {
		lost := normalform.Lost(*r.Shadowed)
		o.Notes, o.Warn = append(o.Notes, lost), append(o.Warn, lost)
	}
	return o
}

// isLink reports whether an entry is a driver link.
func (e *Editor) isLink(entry string) bool {
	return slices.Contains([]string{runpath.Key(e.Normal.DriverLink), driver.Link, driver.Link32}, runpath.Key(entry))
}

// notes turns what the maps noted into sentences.
func (e *Editor) notes(result *runpaths.Result) (notes []string) {
	n := result.Notes
	add := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	for _, dir := range n.Stubs {
		add("removed stub directory %s", dir)
	}
	for _, dir := range n.Unused {
		add("removed %s, which nothing uses", dir)
	}
	for i, name := range result.Opens {
		add("%s", normalform.OpenedLine(name+" is opened by name", result.OpenDirs[i]))
	}
	for _, name := range n.DriverFor {
		add("needs %s, which no other entry holds", name)
	}
	if n.Empties > 0 && e.KeepEmpty {
		add("kept %s, for which the loader searches the working directory",
			session.Count(n.Empties, "empty entry", "empty entries"))
	} else if n.Empties > 0 {
		add("dropped %s, for which the loader searched the working directory",
			session.Count(n.Empties, "empty entry", "empty entries"))
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
	if result.Note.Changed() {
		add("%s", normalform.NoteLine(result.Note))
	}
	return notes
}
