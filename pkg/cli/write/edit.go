package write

import (
	"debug/elf"
	"maps"
	"slices"
	"strings"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/editors"
	"cuda-runpath/pkg/cli/flags"
	"cuda-runpath/pkg/cli/normalform"
	"cuda-runpath/pkg/cli/session"
	"cuda-runpath/pkg/cli/show"
	"cuda-runpath/pkg/edit"
	"cuda-runpath/pkg/edit/parts"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/normal"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/tree"
)

// cache returns the command that shows, writes and removes resolution notes.
func cache() *command.Command {
	return &command.Command{
		Name:      "cache",
		Usage:     "show, write or remove the resolution note",
		UsageText: "runpath cache COMMAND ...",
		Rare:      true,
		Examples:  "runpath cache write app",
		Commands: []*command.Command{
			{
				Name:      "show",
				Also:      []string{"get", "list", "print"},
				Usage:     "show the resolution note",
				Examples:  "runpath cache show app",
				ArgsUsage: "PATH...",
				Flags:     []*command.Flag{command.JSONFlag, flags.Jobs},
				Action:    session.With(func(s *session.Session, _ *command.Line) error { return show.Files(s, "note") }),
			},
			cacheCommand("write", "write the resolution note, or bring it up to date", "runpath cache write app", false,
				flags.DriverLink, flags.Compat, flags.Stub, flags.Malformed),
			cacheCommand("remove", "remove the resolution note", "runpath cache remove app", true),
		},
	}
}

// cacheCommand makes a command that leaves the run path as it is.
func cacheCommand(name, usage, example string, remove bool, more ...*command.Flag) *command.Command {
	return &command.Command{
		Name:      name,
		Usage:     usage,
		Common:    []string{"in-place", "dry-run", "json", "verbose", "quiet"},
		Examples:  example,
		ArgsUsage: "PATH...",
		Flags: slices.Concat(more, flags.Writing, []*command.Flag{flags.Store, flags.EvenInStore, command.DryRunFlag},
			flags.Tree),
		Action: session.With(func(s *session.Session, c *command.Line) error {
			p := parts.Edit{Options: editors.Options(c)}
			p.Note = &edit.Note{Write: !remove, Remove: remove, Anew: true, Maps: normal.New(normal.Settings{
				DriverLink: c.String("driver-link"), Compat: c.String("compat"), StubDirs: flags.StubDirs(c),
			})}
			return runParts(&p, s)
		}),
	}
}

func checkName(what, name string) error {
	if name == "" {
		return command.Misusef("%s is empty", what)
	}
	return nil
}

func editParts() *command.Command {
	return &command.Command{
		Name:   "edit",
		Also:   []string{"interpreter", "needed", "soname", "execstack"},
		Usage:  "change the run path, interpreter, needed libraries, soname",
		Common: []string{"run-path", "replace-entry", "interpreter", "add-needed", "replace-needed", "dry-run"},
		Examples: "runpath edit --run-path '$ORIGIN/../lib' app/bin/app\nrunpath edit --replace-entry /build/lib=/opt/lib " +
			"app\nrunpath edit --soname libx.so.2 --add-needed liby.so.1 lib/libx.so",
		ArgsUsage: "PATH...",
		Flags: slices.Concat([]*command.Flag{
			{Kind: command.String, Name: "interpreter", Usage: "set the interpreter of programs to `PATH`"},
			{Kind: command.String, Name: "soname", Usage: "set the soname of libraries to `NAME`"},
			{Kind: command.List, Name: "remove-needed", Usage: "remove `NAME` from the needed libraries (repeatable)"},
			{Kind: command.List, Name: "replace-needed", Usage: "replace OLD with NEW, given as `OLD=NEW` (repeatable)"},
			{Kind: command.List, Name: "add-needed",
				Usage: "add `NAME` to the needed libraries, unless it is already there (repeatable)"},
			{Name: "first", Usage: "put additions before the others"},
			{Name: "clear-execstack", Usage: "ask for no executable stack"},
			{Name: "set-execstack", Usage: "ask for an executable stack"},
			{Kind: command.String, Name: "run-path", Usage: "write `LIST` as the run path; an empty one removes it"},
			{Kind: command.List, Name: "add-entry",
				Usage: "add `ENTRY` to the end of the run path, unless it is already there (repeatable)"},
			{Kind: command.List, Name: "remove-entry", Usage: "remove `ENTRY` from the run path (repeatable)"},
			{Kind: command.List, Name: "replace-entry",
				Usage: "replace the entry OLD of the run path with NEW, or with several separated by colons, given as " +
					"`OLD=NEW` (repeatable)"},
			flags.ForceRPath, flags.ForceRunPath,
			flags.Store, flags.EvenInStore,
			command.DryRunFlag,
		}, flags.Writing, flags.Tree),
		Action: session.With(func(s *session.Session, c *command.Line) error {
			p, err := partsFromFlags(c)
			if err != nil {
				return err
			}
			return runParts(p, s)
		}),
	}
}

// partsFromFlags reads the flags of edit.
func partsFromFlags(c *command.Line) (*parts.Edit, error) {
	p := &parts.Edit{
		Options:      editors.Options(c),
		RemoveNeeded: c.StringSlice("remove-needed"),
		AddNeeded:    c.StringSlice("add-needed"),
		AddFirst:     c.Bool("first"),
		Tag:          editors.Tag(c),
	}
	text := func(flag string) (*string, error) {
		if !c.IsSet(flag) {
			return nil, nil
		}
		s := c.String(flag)
		return &s, checkName("--"+flag, s)
	}
	var err error
	if p.Interpreter, err = text("interpreter"); err != nil {
		return nil, err
	}
	if p.Soname, err = text("soname"); err != nil {
		return nil, err
	}
	for _, name := range p.AddNeeded {
		if err := checkName("--add-needed", name); err != nil {
			return nil, err
		}
	}
	for _, pair := range c.StringSlice("replace-needed") {
		from, to, ok := strings.Cut(pair, "=")
		if !ok || from == "" || to == "" {
			return nil, command.Misusef("--replace-needed %q: OLD=NEW", pair)
		}
		if p.ReplaceNeeded == nil {
			p.ReplaceNeeded = map[string]string{}
		}
		p.ReplaceNeeded[from] = to
	}
	if set := c.Bool("set-execstack"); set || c.Bool("clear-execstack") {
		if set && c.Bool("clear-execstack") {
			return nil, command.Misuse("--set-execstack and --clear-execstack exclude each other")
		}
		p.ExecStack = &set
	}
	add, remove, replace := c.StringSlice("add-entry"), c.StringSlice("remove-entry"), c.StringSlice("replace-entry")
	for _, pair := range replace {
		if !strings.Contains(pair, "=") || strings.HasSuffix(pair, "=") {
			return nil, command.Misusef("--replace-entry %q: OLD=NEW", pair)
		}
	}
	for _, entry := range slices.Concat(add, remove) {
		if strings.Contains(entry, ":") {
			return nil, command.Misusef("%q has a colon, which separates entries: repeat the flag", entry)
		}
	}
	if given := c.IsSet("run-path"); given || len(add)+len(remove)+len(replace) > 0 {
		list := runpath.Parse(c.String("run-path"))
		change := remedy.Change{RemoveEntries: remove, ReplaceEntries: replace, AddEntries: add}
		p.RunPath = func(l runpath.List) runpath.List {
			if given {
				l = list
			}
			return change.Entries(l)
		}
	} else if p.ForceRPath || p.ForceRunPath {
		return nil,
			command.Misuse("--force-rpath and --force-runpath apply to the run path: give --run-path or --add-entry too")
	}
	if p.AddFirst && len(p.AddNeeded) == 0 {
		return nil, command.Misuse("--first applies only to --add-needed")
	}
	if p.Interpreter == nil && p.Soname == nil && p.ExecStack == nil && p.RunPath == nil &&
		len(p.RemoveNeeded)+len(p.ReplaceNeeded)+len(p.AddNeeded) == 0 {
		return nil, command.Misuse("no change is given")
	}
	return p, nil
}

// partsReport is an element of "files" in the JSON document of these commands.
type partsReport struct {
	session.Report
	Changes []parts.Change `json:"changes"`

	interpreter string
}

// runParts edits the session's files. It returns command.ErrFailed where a file failed, after
// all others were done.
func runParts(p *parts.Edit, s *session.Session) error {
	if p.Note.Maps == nil {
		p.Note.Maps = normal.New(normal.Settings{})
	}
	programs := map[string]int{} // that have a note, by their loaders
	return editors.Run(s, func(f *tree.File) *partsReport {
		result := p.File(f)
		r := &partsReport{editors.Report(s, f, &result.Result, result.Before, result.After),
			append([]parts.Change{}, result.Changes...), result.Interpreter}
		r.Warn = append(result.Notes, r.Warn...)
		r.Notes = slices.Concat(r.Info, r.Warn)
		var changes []string
		for _, c := range result.Changes {
			after := partText(c.After)
			if c.Part == "runpath" && result.After.Tag == elf.DT_RPATH && result.Before.Tag != elf.DT_RPATH {
				after = "DT_RPATH " + after
			}
			changes = append(changes, c.Part+" "+partText(c.Before)+" -> "+after)
		}
		if result.Note.Changed() {
			changes = append(changes, normalform.NoteLine(result.Note))
		}
		if r.Action == tree.Edited && r.Reason == "" {
			r.Line = strings.Join(changes, "; ")
		}
		return r
	}, func(r *partsReport) {
		if p.Note.Write && r.ResolutionNote != string(edit.NoteNone) && r.ResolutionNote != string(edit.NoteRemoved) {
			programs[r.interpreter]++
		}
	}, func() {
		for _, at := range slices.Sorted(maps.Keys(programs)) {
			if reads, known := loader.ReadsNotes(at); known && !reads {
				s.Log.Infof("%s, the loader of %d of these files, does not read resolution notes", at, programs[at])
			}
		}
	})
}

func partText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []string:
		if len(v) > 0 {
			return strings.Join(v, " ")
		}
	case bool:
		if v {
			return "executable"
		}
		return "not executable"
	}
	return "(none)"
}
