package cli

import (
	"os"
	"slices"
	"strings"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/edit"
	"cuda-runpath/pkg/normal"
	"cuda-runpath/pkg/runpath"
)

// partCommands returns the commands that show and change one part of a file each,
// and edit, which changes several at once.
func partCommands() []*command.Command {
	return []*command.Command{
		part("interpreter", "show or set the loader that a program asks for (PT_INTERP)", "runpath interpreter set /lib64/ld-linux-x86-64.so.2 app/bin",
			partShow("interpreter", "show the interpreter"),
			partSet("set", "INTERPRETER", "set the interpreter of programs; libraries are skipped", func(p *edit.Parts, names []string) error {
				p.Interpreter = &names[0]
				return checkName("INTERPRETER", names[0])
			})),
		part("needed", "show or change the needed libraries (DT_NEEDED)", "runpath needed add --first libx.so.1 app/bin/app\nrunpath needed replace build/libx.so libx.so.1 app/bin/app",
			partShow("needed", "show the needed libraries, in load order"),
			partSet("add", "NAME", "add NAME to the end of the needed libraries, unless it is already there", func(p *edit.Parts, names []string) error {
				p.AddNeeded = names
				return checkName("NAME", names[0])
			}, firstFlag),
			partSet("remove", "NAME", "remove NAME from the needed libraries", func(p *edit.Parts, names []string) error {
				p.RemoveNeeded = names
				return nil
			}),
			partSet("replace", "OLD NEW", "replace OLD with NEW; versions needed from OLD are then needed from NEW", func(p *edit.Parts, names []string) error {
				p.ReplaceNeeded = map[string]string{names[0]: names[1]}
				return checkName("NEW", names[1])
			})),
		part("soname", "show or set the name that a library is known by (DT_SONAME)", "runpath soname set libx.so.1 lib/libx.so",
			partShow("soname", "show the soname"),
			partSet("set", "NAME", "set the soname of libraries; programs are skipped", func(p *edit.Parts, names []string) error {
				p.Soname = &names[0]
				return checkName("NAME", names[0])
			})),
		part("execstack", "show, set or clear the request for an executable stack (PT_GNU_STACK)", "runpath execstack clear lib/libx.so",
			partShow("execstack", "show whether an executable stack is asked for"),
			partSet("set", "", "ask for an executable stack", func(p *edit.Parts, _ []string) error {
				p.ExecStack = new(bool)
				*p.ExecStack = true
				return nil
			}),
			partSet("clear", "", "ask for no executable stack; with one, glibc 2.41 refuses to open a library by dlopen", func(p *edit.Parts, _ []string) error {
				p.ExecStack = new(bool)
				return nil
			})),
		part("cache", "show, write or remove the resolution note", "runpath cache write app",
			partShow("note", "show the resolution note"),
			cacheCommand("write", "write the resolution note, or bring it up to date", false, driverLinkFlag, compatFlag, stubFlag),
			cacheCommand("remove", "remove the resolution note", true)),
		editCommand(),
	}
}

// cacheCommand makes a command that leaves the run path as it is.
func cacheCommand(name, usage string, remove bool, flags ...*command.Flag) *command.Command {
	return &command.Command{
		Name:      name,
		Usage:     usage,
		ArgsUsage: "PATH...",
		Flags:     slices.Concat(flags, []*command.Flag{copyFlag, storeFlag, evenInStoreFlag, command.DryRunFlag}, treeFlags),
		Action: with(func(s *session, c *command.Line) error {
			s.Note = &edit.Note{Write: !remove, Remove: remove, Anew: true, Maps: normal.New(normal.Settings{
				DriverLink: c.String("driver-link"), Compat: c.String("compat"), StubDirs: stubDirs(c),
			})}
			return runParts(&edit.Parts{}, s)
		}),
	}
}

func part(name, usage, examples string, commands ...*command.Command) *command.Command {
	for _, c := range commands {
		c.Examples = "runpath " + name + " " + c.Name + " " + strings.ReplaceAll(c.ArgsUsage, "PATH...", "app")
		if c.Name != "show" {
			c.Common = []string{"copy", "dry-run", "json", "verbose", "quiet"}
		}
	}
	return &command.Command{Name: name, Usage: usage, Examples: examples, UsageText: "runpath " + name + " COMMAND ...", Commands: commands, Rare: true}
}

func partShow(what, usage string) *command.Command {
	return &command.Command{
		Name:      "show",
		Also:      []string{"get", "list", "print"},
		Usage:     usage,
		ArgsUsage: "PATH...",
		Flags:     []*command.Flag{command.JSONFlag, jobsFlag},
		Action:    with(func(s *session, _ *command.Line) error { return showFiles(s, what) }),
	}
}

// partSet makes a command that takes as many names as words has, and then files.
func partSet(name, words, usage string, ask func(*edit.Parts, []string) error, flags ...*command.Flag) *command.Command {
	n := len(strings.Fields(words))
	return &command.Command{
		Name:      name,
		Usage:     usage,
		ArgsUsage: strings.TrimSpace(words + " PATH..."),
		Flags:     slices.Concat(flags, []*command.Flag{noteFlag, copyFlag, storeFlag, evenInStoreFlag, command.DryRunFlag}, treeFlags),
		Action: func(c *command.Line) error {
			if len(c.Args) < n+1 {
				return command.Misusef("%s takes %s", name, strings.TrimSpace(words+" and the files"))
			}
			p := edit.Parts{AddFirst: c.Bool("first")}
			if err := ask(&p, c.Args[:n]); err != nil {
				return err
			}
			for _, word := range c.Args[:n] {
				if why := noName(words, word); why != "" {
					return command.Misusef("%q is %s: %s %s PATH... is the order", word, why, name, words)
				}
			}
			session, err := start(c, c.Args[n:])
			if err != nil {
				return err
			}
			return runParts(&p, session)
		},
	}
}

// noName returns why a word cannot be the name of a library, or an interpreter, that is
// meant; "" where it can. See [checkOrder].
func noName(words, word string) string {
	st, err := os.Stat(word)
	switch {
	case words == "INTERPRETER" && !strings.Contains(word, "/"):
		return "not the path of a loader"
	case words == "INTERPRETER" || err != nil:
		return ""
	case st.IsDir():
		return "a directory"
	case st.Mode().IsRegular() && !strings.Contains(word, ".so"):
		return "a file that is not called as a library is"
	}
	return ""
}

var firstFlag = &command.Flag{Name: "first", Usage: "put additions before the others"}

func checkName(what, name string) error {
	if name == "" {
		return command.Misusef("%s is empty", what)
	}
	return nil
}

func editCommand() *command.Command {
	return &command.Command{
		Name:      "edit",
		Usage:     "change several parts of each file in one edit",
		Common:    []string{"run-path", "replace-entry", "interpreter", "add-needed", "replace-needed", "dry-run"},
		Examples:  "runpath edit --run-path '$ORIGIN/../lib' app/bin/app\nrunpath edit --replace-entry /build/lib=/opt/lib app\nrunpath edit --soname libx.so.2 --add-needed liby.so.1 lib/libx.so",
		ArgsUsage: "PATH...",
		Flags: append([]*command.Flag{
			{Kind: command.String, Name: "interpreter", Usage: "set the interpreter of programs to `PATH`"},
			{Kind: command.String, Name: "soname", Usage: "set the soname of libraries to `NAME`"},
			{Kind: command.List, Name: "remove-needed", Usage: "remove `NAME` from the needed libraries (repeatable)"},
			{Kind: command.List, Name: "replace-needed", Usage: "replace OLD with NEW, given as `OLD=NEW` (repeatable)"},
			{Kind: command.List, Name: "add-needed", Usage: "add `NAME` to the needed libraries, unless it is already there (repeatable)"},
			firstFlag,
			{Name: "clear-execstack", Usage: "ask for no executable stack"},
			{Name: "set-execstack", Usage: "ask for an executable stack"},
			{Kind: command.String, Name: "run-path", Usage: "write `LIST` as the run path; an empty one removes it"},
			{Kind: command.List, Name: "add-entry", Usage: "add `ENTRY` to the end of the run path, unless it is already there (repeatable)"},
			{Kind: command.List, Name: "remove-entry", Usage: "remove `ENTRY` from the run path (repeatable)"},
			{Kind: command.List, Name: "replace-entry", Usage: "put NEW, or several with colons, in the place of the entry OLD of the run path, given as `OLD=NEW` (repeatable)"},
			forceRPathFlag, forceRunPathFlag,
			noteFlag,
			copyFlag, storeFlag, evenInStoreFlag,
			command.DryRunFlag,
		}, treeFlags...),
		Action: with(func(s *session, c *command.Line) error {
			p, err := partsFromFlags(c)
			if err != nil {
				return err
			}
			if p.RunPath != nil && !p.ForceRPath && !c.Bool("force-runpath") {
				p.Inherits = s.inherits(p.Would)
			}
			return runParts(p, s)
		}),
	}
}

// partsFromFlags reads the flags of edit.
func partsFromFlags(c *command.Line) (*edit.Parts, error) {
	p := &edit.Parts{
		RemoveNeeded: c.StringSlice("remove-needed"),
		AddNeeded:    c.StringSlice("add-needed"),
		AddFirst:     c.Bool("first"),
		ForceRPath:   c.Bool("force-rpath"),
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
		p.KeepRPath = !given && !c.Bool("force-runpath") // what audit and explain print is to change one thing
		p.RunPath = func(l runpath.List) runpath.List {
			if given {
				l = list
			}
			l = l.Without(remove...)
			for _, pair := range replace {
				l = replaceEntry(l, pair)
			}
			for _, entry := range add {
				if len(l.Without(entry)) == len(l) {
					l = append(l, entry)
				}
			}
			return l
		}
	} else if p.ForceRPath || c.Bool("force-runpath") {
		return nil, command.Misuse("--force-rpath and --force-runpath apply to the run path: give --run-path or --add-entry too")
	}
	if p.AddFirst && len(p.AddNeeded) == 0 {
		return nil, command.Misuse("--first applies only to --add-needed")
	}
	if p.Interpreter == nil && p.Soname == nil && p.ExecStack == nil && p.RunPath == nil && len(p.RemoveNeeded)+len(p.ReplaceNeeded)+len(p.AddNeeded) == 0 {
		return nil, command.Misuse("no change is given")
	}
	return p, nil
}

// replaceEntry puts NEW in the place of an entry OLD of a list; pair is OLD=NEW, where OLD, which may have an equals sign too, is the
// shortest that is an entry.
func replaceEntry(l runpath.List, pair string) runpath.List {
	for i, c := range pair {
		if old := pair[:i]; c == '=' && len(l.Without(old)) < len(l) {
			return l.Replace(old, runpath.Parse(pair[i+1:])...)
		}
	}
	return l
}
