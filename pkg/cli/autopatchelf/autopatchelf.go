package autopatchelf

import (
	"bufio"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/flags"
	"cuda-runpath/pkg/cli/normalform"
	"cuda-runpath/pkg/cli/session"
	"cuda-runpath/pkg/edit"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/fixup"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/normal"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/starts"
	"cuda-runpath/pkg/tree"
)

// Command returns the app that makes prebuilt files find their libraries.
func Command() *command.Command {
	app := command.New("autoPatchelf", "PATH...",
		"make prebuilt programs and libraries find the libraries that they need", `
Every program below the PATHs gets the interpreter that is asked for, and every program and library the run path that
makes the loader find the libraries it needs. A library is taken only if the loader would: for the file's machine, and
with every symbol version that the file needs of it. Stubs are never taken. Before anything is written, the loader's
rules are applied to each program, to see that it will load what was planned.

In a tree that another package manager installed (a .venv, node_modules, a conda prefix), as with

    autoPatchelf --libs /nix/store/...-gcc-lib/lib .venv

what works stays: a file in which nothing is missing is not touched, and what the loader finds for it today stays.
What is missing is looked for in the file's own package, then in --libs, then in the rest of the tree; programs keep
their interpreters unless --interpreter is given, files for other machines are skipped, and a record beside the tree
(PATH.autopatchelf.json) lets --undo take everything back, or what is below one of its directories. --undo exits with
status 1 for a PATH that does not exist or that no record mentions, so a typo shows in a script.

It also reads the command line of nixpkgs' auto-patchelf: with --paths, the options --paths, --libs,
--runtime-dependencies, --append-rpaths and --ignore-missing take lists, up to the next option, and --extra-args takes
the rest. The interpreter is then the one of $NIX_BINTOOLS, existing run paths are replaced, and there is no record.`+
			session.ExitStatus,
		"autoPatchelf --libs /nix/store/...-gcc-lib/lib .venv\n"+
			"autoPatchelf --tool autoAddDriverRunpath app\nautoPatchelf --undo .venv")
	app.Common = []string{"libs", "interpreter", "ignore-missing", "tool", "undo", "dry-run"}
	app.Flags = append(app.Flags,
		&command.Flag{Kind: command.List, Name: "libs", Check: flags.SomeDirectory,
			Usage: "look for libraries in `DIR` (repeatable)"},
		&command.Flag{Kind: command.List, Name: "interpreter",
			Usage:       "use `LOADER` as the interpreter of programs for its machine (repeatable)",
			DefaultText: "with --paths, that of $NIX_BINTOOLS; otherwise none"},
		&command.Flag{Kind: command.List, Name: "runtime-dependencies",
			Usage: "begin the run path of each program with `DIR` (repeatable)"},
		&command.Flag{Kind: command.List, Name: "append-rpaths", Usage: "end each run path with `ENTRY` (repeatable)"},
		&command.Flag{Kind: command.List, Name: "ignore-missing",
			Usage: "libraries whose names match `PATTERN` may be missing (repeatable)"},
		&command.Flag{Name: "no-recurse", Usage: "leave out the directories in a PATH"},
		&command.Flag{Name: "keep-libc", Usage: "allow the C library from --libs"},
		&command.Flag{Name: "ignore-existing", Usage: "do not look for libraries in the PATHs themselves"},
		&command.Flag{Name: "preserve-origin", Usage: "keep $ORIGIN entries; without --paths, keep every entry that exists",
			DefaultText: "true, with --paths false"},
		&command.Flag{Name: "relativize-rpath", Aliases: []string{"relative-rpaths"},
			Usage:       "write directories below a PATH relative to $ORIGIN, so that PATH can be moved",
			DefaultText: "true, with --paths false"},
		&command.Flag{
			Name: "dlopen",
			Usage: "also find the driver's and CUDA's libraries that a file names in read-only data; runtime dependencies are " +
				"for libraries too"},
		&command.Flag{
			Name:  "opened",
			Usage: "append entries for CUDA toolkit libraries from --libs that a file names in its read-only data"},
		&command.Flag{Name: "minimal", Usage: "leave out entries that nothing uses"},
		&command.Flag{Kind: command.String, Name: "enforce-priority", Default: "suggested",
			Values: []string{"suggested", "recommended", "required"},
			Usage:  "libraries in .note.dlopen may be missing if below the priority `suggested|recommended|required`"},
		&command.Flag{Name: "no-set-interpreter", Usage: "leave interpreters as they are"},
		&command.Flag{Kind: command.List, Name: "hints",
			Usage: "`FILE` says which package has a library: lines \"SONAME ATTRIBUTE\", or nix-locate's output (repeatable)"},
		&command.Flag{Name: "structured-logs", Usage: "print events to stdout as JSON lines, as nixpkgs' auto-patchelf does"},
		&command.Flag{Kind: command.List, Name: "tool", Values: normalform.ToolNames(),
			Usage: "do what `NAME` does in the same edit: " + normalform.ToolList() + " (repeatable)"},
		&command.Flag{Kind: command.List, Name: "temporary",
			Usage: "fail if a run path would name a directory below `DIR`, which is gone after the build (repeatable)"},
		&command.Flag{Name: "expect-driver",
			Usage: "do not report the GPU driver's libraries as missing: something else adds the driver link"},
		&command.Flag{Name: "undo", Usage: "give files below PATH the run paths and interpreters that they had before"},
		&command.Flag{
			Name:  "force",
			Usage: "with --undo: also undo files that something else has changed since, and files in a copy of the directory"},
		&command.Flag{Name: "no-record", Usage: "keep no record for --undo"},
		&command.Flag{Name: "in-build", Hidden: true},
		&command.Flag{Kind: command.List, Name: "or-path", Hidden: true,
			Usage: "use `PATH`, if it exists, when no PATH is given (repeatable)"},
		&command.Flag{Kind: command.List, Name: "extra-arg", Hidden: true},
		&command.Flag{Kind: command.String, Name: "when", Default: "always", Values: []string{"always", "needed"},
			Usage: "autoAddDriverRunpath: edit `always|needed`: every file, or those that need the driver"},
		flags.Stub, flags.Store, flags.DriverLink, flags.Compat,
		flags.Position,
		flags.ForceRPath, flags.ForceRunPath,
		flags.ResolutionNote, flags.EvenInStore, command.DryRunFlag,
	)
	app.Flags = slices.Concat(app.Flags, flags.Writing, flags.Tree)
	app.Arguments = func(args []string) ([]string, error) {
		return autoPatchelfArguments(args, func(name string) bool { return command.TakesValue(app.Flags, name) })
	}
	app.Action = func(c *command.Line) error {
		paths := c.Args
		if len(paths) == 0 && c.IsSet("or-path") {
			if paths = usualPaths(c.StringSlice("or-path"), c.Bool("undo")); len(paths) == 0 {
				return nil
			}
		}
		s, err := session.Start(c, paths)
		if err != nil {
			return err
		}
		if c.Bool("force") && !c.Bool("undo") {
			return command.Misuse("--force is for --undo")
		}
		if c.Bool("undo") {
			return undo(s, c)
		}
		a, err := newAutoPatchelf(c, s)
		if err != nil {
			return err
		}
		return a.run()
	}
	return app
}

// usualPaths returns the directories of a list that are there, and for --undo those of them
// that a record stands beside, unless none does.
func usualPaths(all []string, undo bool) []string {
	there := slices.DeleteFunc(all, func(p string) bool {
		st, err := os.Stat(p)
		return err != nil || !st.IsDir()
	})
	if undo && slices.ContainsFunc(there, fixup.HasRecord) {
		there = slices.DeleteFunc(there, func(p string) bool { return !fixup.HasRecord(p) })
	}
	return there
}

// autoPatchelf is one run.
type autoPatchelf struct {
	*session.Session
	sources    fixup.Sources
	settings   fixup.Settings
	hints      *fixup.Hints
	record     bool
	structured bool
	inPlace    bool
	// imported is what Python does with the files of the paths.
	imported func() *starts.Imported
	pythons  starts.Openers
}

func newAutoPatchelf(c *command.Line, s *session.Session) (*autoPatchelf, error) {
	a := &autoPatchelf{Session: s, hints: &fixup.Hints{},
		structured: c.Bool("structured-logs")}
	if a.structured && s.JSON {
		return nil, command.Misuse("--structured-logs and --json both print to stdout: give one of them")
	}
	mode := modeOf(c)
	a.inPlace = c.Bool("in-place") || c.Bool("in-build")
	a.record = mode.ByHand() && !c.Bool("no-record") && !s.DryRun
	priority, _ := fixup.ParsePriority(c.String("enforce-priority"))
	a.sources = fixup.Sources{
		Libs:        c.StringSlice("libs"),
		Shallow:     c.Bool("no-recurse"),
		WithoutTree: c.Bool("ignore-existing"),
		Store:       strings.TrimSuffix(cmp.Or(c.String("store"), os.Getenv("NIX_STORE"), "/nix/store"), "/"),
		Stubs:       flags.StubDirs(c),
		Jobs:        s.Jobs,
		Leftover:    s.Leftover(),
		Refuse:      s.Refuse,
	}
	a.settings = fixup.Settings{
		Mode:                mode,
		RuntimeDependencies: c.StringSlice("runtime-dependencies"),
		AppendRunpaths:      c.StringSlice("append-rpaths"),
		KeepLibC:            c.Bool("keep-libc"),
		Relativize:          c.Bool("relativize-rpath") || mode.ByHand() && !c.IsSet("relativize-rpath"),
		Dlopen:              c.Bool("dlopen"),
		Opened:              c.Bool("opened"),
		Minimal:             c.Bool("minimal"),
		EnforcePriority:     priority,
		Driver:              c.Bool("expect-driver"),
		Machines:            fixup.OwnMachines(),
		KeepInterpreter:     c.Bool("no-set-interpreter"),
		Ignore:              c.StringSlice("ignore-missing"),
		Temporary:           c.StringSlice("temporary"),
	}
	switch {
	case c.Bool("force-rpath"):
		a.settings.Tag = elf.DT_RPATH
	case c.Bool("force-runpath"):
		a.settings.Tag = elf.DT_RUNPATH
	}
	if err := a.extraArguments(c.StringSlice("extra-arg")); err != nil {
		return nil, err
	}
	if err := a.tools(c); err != nil {
		return nil, err
	}
	a.sources.Literals = a.settings.Literals
	if err := a.interpreters(c.StringSlice("interpreter")); err != nil {
		return nil, err
	}
	for _, name := range c.StringSlice("hints") {
		if err := a.readHints(name); err != nil {
			return nil, err
		}
	}
	a.paths()
	a.imported = func() *starts.Imported { return nil }
	if mode == fixup.Repair {
		l, err := loader.New(loader.Options{NoTries: true, Opened: true})
		if err != nil {
			return nil, err
		}
		a.imported = starts.Importing(s.Context, l, a.sources.Paths)
		a.pythons = starts.OpenersOf(l, a.sources.Paths)
		a.settings.Opener = a.pythons.Program
	}
	a.settings.Loaded = func(file, name string) bool { return a.imported().Loads(file, name) }
	return a, nil
}

// modeOf reads where the run takes place, which nixpkgs' command line says, and what stays of run paths.
func modeOf(c *command.Line) fixup.Mode {
	switch preserve := c.Bool("preserve-origin"); {
	case c.Bool("in-build") && preserve:
		return fixup.BuildOrigins
	case c.Bool("in-build"):
		return fixup.Build
	case preserve || !c.IsSet("preserve-origin"):
		return fixup.Repair
	}
	return fixup.Replace
}

// paths leaves out what nixpkgs' program passes over in a build. By hand the walk refuses links.
func (a *autoPatchelf) paths() {
	for _, p := range a.Paths {
		to, skipped := p, ""
		if !a.settings.Mode.ByHand() {
			to, skipped = fixup.BuildPath(p)
		}
		if skipped != "" {
			a.Log.WithField("path", p).Warn(skipped)
			continue
		}
		a.sources.Paths = append(a.sources.Paths, to)
	}
}

// extraArguments reads what nixpkgs' program would pass on to patchelf.
func (a *autoPatchelf) extraArguments(args []string) error {
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; arg {
		case "--force-rpath":
			a.settings.Tag = elf.DT_RPATH
		case "--no-clobber-old-sections", "--clobber-old-sections", "--debug", "--no-sort", "--allow-broken":
			a.Log.Infof("patchelf's %s changes nothing here", arg)
		case "--page-size":
			i++
			a.Log.Infof("patchelf's %s changes nothing here: the file's own alignment is kept", arg)
		default:
			return command.Misusef("patchelf's %s is not understood here: run patchelf itself, or leave it out of patchelfFlags",
				arg)
		}
	}
	return nil
}

// tools reads which maps are applied in the same edit.
func (a *autoPatchelf) tools(c *command.Line) error {
	settings, err := normalform.Settings(c)
	if err != nil {
		return err
	}
	maps, err := normalform.MapsOf(c.StringSlice("tool"), settings.Compat)
	if err != nil {
		return err
	}
	t := fixup.Tools{Normal: normal.New(settings), Maps: maps, WhenNeeds: c.String("when") == "needed",
		WriteNotes: c.Bool("resolution-note")}
	if t.WhenNeeds {
		a.sources.NeedsDriver = normal.NeedsDriver
	}
	a.settings.Apply(t)
	if maps == 0 {
		for _, flag := range []string{"driver-link", "compat", "position", "when"} {
			if c.IsSet(flag) {
				return command.Misusef("--%s is for a --tool: name the tool too", flag)
			}
		}
	}
	return nil
}

// interpreters takes those of the command line, else with --paths those of
// $NIX_BINTOOLS: its own, and the 32-bit one that multilib toolchains have beside it.
func (a *autoPatchelf) interpreters(given []string) error {
	for _, p := range given {
		a.settings.Interpreters = append(a.settings.Interpreters, fixup.Interpreter{Path: p})
	}
	bintools := os.Getenv("NIX_BINTOOLS")
	if len(given) > 0 || a.settings.Mode.ByHand() {
		return nil
	}
	if bintools == "" {
		a.Log.Warn("$NIX_BINTOOLS is not set and no --interpreter is given: programs keep their interpreters")
		return nil
	}
	var err error
	a.settings.Interpreters, err = fixup.BuildInterpreters(bintools)
	return err
}

func (a *autoPatchelf) readHints(name string) error {
	// Nobody waits for the writer of a FIFO. One that has a writer, as <(nix-locate ...), is read to its end.
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("--hints: %w", err)
	}
	defer f.Close()
	in := bufio.NewReader(f)
	if _, err := in.Peek(1); errors.Is(err, io.EOF) {
		a.Log.Warnf("--hints %s: there is nothing in it", name)
	}
	before := a.hints.Unread
	if err := a.hints.Read(in); err != nil {
		return fmt.Errorf("--hints %s: %w", name, err)
	}
	if n := a.hints.Unread - before; n > 0 {
		a.Log.Warnf("--hints %s: %s in no format that is known (\"SONAME ATTRIBUTE\", or what nix-locate prints): %s", name,
			session.Count(n, "line is", "lines are"), command.Printable(a.hints.First))
	}
	return nil
}

// rounds is how often a run plans anew for files that something else edited after they had been read.
const rounds = 3

func (a *autoPatchelf) run() error {
	signal.Ignore(unix.SIGPIPE) // see edits
	var records *fixup.Records
	if a.record {
		var err error
		if records, err = fixup.OpenRecords(a.Context, a.sources.Paths, waiting(a.Session)); err != nil {
			return err
		}
		defer records.Close()
	}
	var done []*fixup.Plan
	for round := 1; ; round++ {
		index, err := a.read()
		defer index.Close()
		if err != nil {
			return a.report(index, nil, nil, err)
		}
		if round == 1 {
			a.tellOutside(index.LibrariesOutside())
		}
		resolver, err := fixup.NewResolver(index, a.settings)
		if err != nil {
			return err
		}
		plans := resolver.ResolveAll(a.Jobs)
		stopped, err := a.change(index, plans, records)
		if err != nil {
			return a.report(index, nil, nil, err)
		}
		keep(plans, done)
		if done = plans; stopped == nil && round < rounds && slices.ContainsFunc(plans, (*fixup.Plan).Outrun) {
			continue
		}
		if records != nil {
			for _, file := range records.Replaced {
				a.Log.WithField("path", file).Info(
					"replaced a record left by another directory of this name")
			}
		}
		return a.report(index, resolver, plans, stopped)
	}
}

// read reads the files below the paths, and those of their libraries.
func (a *autoPatchelf) read() (*fixup.Index, error) {
	var files atomic.Int64
	a.sources.Progress = func(n int) { files.Store(int64(n)) }
	defer a.Progress(func() string { return fmt.Sprintf("%d files read", files.Load()) })()
	return fixup.Read(a.Context, a.sources)
}

// keep puts the plans that were carried out before in the place of the new ones, which have nothing to do.
func keep(plans, before []*fixup.Plan) {
	done := map[string]*fixup.Plan{}
	for _, p := range before {
		if p.Result.Edited {
			done[p.Object.Path] = p
		}
	}
	for i, p := range plans {
		if was := done[p.Object.Path]; was != nil && p.Err == nil && !p.Result.Edited {
			plans[i] = was
		}
	}
}

// change carries out the plans. After err nothing was changed; stopped is why not all is done.
func (a *autoPatchelf) change(index *fixup.Index, plans []*fixup.Plan, records *fixup.Records) (stopped, err error) {
	var done, of atomic.Int64
	stop := a.Progress(func() string { return fmt.Sprintf("%d of %d files edited", done.Load(), of.Load()) })
	defer stop()
	return index.Change(a.Context, plans, fixup.Changing{
		Carrying: fixup.Carrying{Jobs: a.Jobs, DryRun: a.DryRun},
		InPlace:  a.inPlace,
		Records:  records,
		Progress: func(n, all int) { done.Store(int64(n)); of.Store(int64(all)) },
	})
}

// waiting says for whom a run waits.
func waiting(s *session.Session) func(tree string) {
	return func(tree string) {
		s.Log.WithField("path", tree).Warn("waiting for another autoPatchelf run on this tree to finish")
	}
}

// tellOutside says that there are libraries in the tree only by links, which are not followed.
func (a *autoPatchelf) tellOutside(links []string) {
	if len(links) == 0 {
		return
	}
	slices.Sort(links)
	first := links[0]
	if target, err := os.Readlink(first); err == nil {
		first += " -> " + target
	}
	a.Log.Warnf(
		"%s to libraries outside the tree, which are left as they are: %s. Links are not followed; if a package manager "+
			"made them (uv with --link-mode symlink), let it make copies (--link-mode copy) and run this again",
		session.Count(len(links), "symbolic link leads", "symbolic links lead"), command.Printable(first))
}

// tellOpened says which packages --opened has added, and how much they add to a closure.
func (a *autoPatchelf) tellOpened(plans []*fixup.Plan) {
	told := map[string]bool{}
	for _, p := range plans {
		for _, c := range p.Opens {
			if told[c.Dir] || !p.Result.Edited {
				continue
			}
			told[c.Dir] = true
			a.Log.Info(normalform.OpenedLine(c.Why, c.Dir))
		}
	}
}

// tellUnstarted says which programs keep, or get, an interpreter with which they do not start here.
func (a *autoPatchelf) tellUnstarted(resolver *fixup.Resolver, plans []*fixup.Plan) {
	first, n := map[string]*fixup.Plan{}, map[string]int{} // by interpreter
	for _, p := range plans {
		if in := p.State().Interpreter; p.NoLoader != "" && a.settings.Mode.ByHand() {
			if n[in]++; first[in] == nil {
				first[in] = p
			}
		}
	}
	for _, in := range slices.Sorted(maps.Keys(n)) {
		p := first[in]
		usual := cmp.Or(resolver.UsualInterpreter(p), "LOADER")
		a.Log.Warnf(
			"%s not start here: the loader that %s, %s, %s; fix: --interpreter %s gives them one that is here; on NixOS, "+
				"programs.nix-ld.enable = true lets them start as they are",
			session.Count(n[in], "program does", "programs do"), askFor(n[in], p.Object.Path), command.Printable(in), p.NoLoader,
			remedy.Quote(usual))
	}
	for _, python := range a.pythons { // which a run on the tree leaves alone, as all that is outside
		p := resolver.Outside(python.Program)
		if p == nil || p.NoLoader == "" || a.pythons.Program(p.Object.Real) != "" {
			continue
		}
		a.Log.WithField("path", python.Path).Warnf("its Python does not start here: the loader that it asks for, %s, %s; fix: %s; "+
			"on NixOS, programs.nix-ld.enable = true lets it start as it is", command.Printable(p.Object.Interp), p.NoLoader,
			remedy.Quote("runpath", "edit", "--interpreter", cmp.Or(resolver.UsualInterpreter(p), "LOADER"), p.Object.Real))
	}
}

func askFor(n int, first string) string {
	if n == 1 {
		return command.Printable(first) + " asks for"
	}
	return fmt.Sprintf("%s and %d more ask for", command.Printable(first), n-1)
}

// libraryReport is one element of "libraries".
type libraryReport struct {
	Name     string   `json:"name"`
	Cause    string   `json:"cause"`
	Outcome  string   `json:"outcome"`
	Path     *string  `json:"path"` // null where no candidate was taken
	Rejected []string `json:"rejected,omitempty"`
}

// patchReport is one element of "files".
type patchReport struct {
	session.Report
	Missing     []string           `json:"missing,omitempty"`
	Interpreter *interpreterReport `json:"interpreter,omitempty"`
	Libraries   []libraryReport    `json:"libraries"`
}

type interpreterReport struct {
	Before string `json:"before"`
	After  string `json:"after"`
}

// missingReport is one element of "missing".
type missingReport struct {
	Name     string   `json:"name"`
	NeededBy []string `json:"needed_by"`
	Reasons  []string `json:"reasons"`
	Packages []string `json:"packages"`
	remedy.Remedy
}

// patchSummary is the JSON document's "summary".
type patchSummary struct {
	*session.Summary
	Missing []missingReport `json:"missing"`
}

// shown is how many edits, and warnings, are listed by hand without --verbose.
const shown = 3

// report says what came of the plans; stopped is why there are none, or why not all was done.
func (a *autoPatchelf) report(index *fixup.Index, resolver *fixup.Resolver, plans []*fixup.Plan, stopped error) error {
	t := a.Telling()
	t.Sum.Skipped = index.Others
	others := map[fixup.LibC]int{}
	// By hand, of many edits and warnings the first one of each is shown, and every conflict.
	edited, warned := 0, 0
	for _, p := range plans {
		warned += len(p.Warnings)
		if p.Result.Edited {
			edited++
		}
	}
	brief := a.settings.Mode.ByHand() && !a.Verbose
	moreEdits, moreWarnings := brief && edited > shown, brief && warned > shown
	edited, warned = 0, 0
	for _, p := range plans {
		if p.OtherLibC != fixup.UnknownLibC {
			others[p.OtherLibC]++
		}
		r := a.file(p)
		for _, c := range p.Conflicts {
			a.Log.WithField("path", r.Path).Warn(c)
		}
		for _, w := range p.Warnings {
			if warned++; !moreWarnings || warned == 1 {
				a.Log.WithField("path", r.Path).Warn(w)
			}
		}
		if p.Result.Edited && r.Action == tree.Edited {
			if edited++; moreEdits && edited > 1 {
				r.Line, r.Info = session.OtherEdits, nil
			}
		}
		if p.Result.Edited && !a.inPlace && !a.DryRun {
			r.Left = p.Object.LinkedOutside()
		}
		t.File(r)
	}
	t.Stop(stopped)
	if moreWarnings {
		a.Log.Warnf("%d more warnings (-v lists them)", warned-1)
	}
	for _, path := range a.Paths {
		if plans != nil && stopped == nil && session.OneFile([]string{path}) && a.Singled(path) &&
			!slices.ContainsFunc(plans, func(p *fixup.Plan) bool { return p.Object.Path == path }) {
			a.Log.WithField("path", path).Infof("skipped: %s", elfimage.NotELF)
		}
	}
	a.tellOpened(plans)
	a.tellUnstarted(resolver, plans)
	for _, c := range []fixup.LibC{fixup.GLibC, fixup.Musl} {
		if n := others[c]; n > 0 {
			a.Log.Infof("%s linked against %s %s skipped: programs here run on another C library",
				session.Count(n, "file that was", "files that were"), c, map[bool]string{true: "is", false: "are"}[n == 1])
		}
	}
	if a.structured {
		a.events(plans)
		a.Document = true // stdout belongs to the events
	}
	missing := []missingReport{}
	var fails []missingReport // what fails the run
	var parts []string        // what only modules lack that no import reaches
	if plans != nil {
		for _, text := range resolver.UnusedPatterns(plans) {
			a.Log.Warn(text)
		}
		for _, m := range resolver.Absences(plans, a.hints) {
			report := missingReport{m.Name, m.NeededBy, session.EntriesOf(m.Reasons()), session.EntriesOf(m.Attributes),
				m.Remedy(a.settings.Mode)}
			missing = append(missing, report)
			if a.apart(m, plans) {
				if parts = append(parts, m.Name); a.Verbose {
					a.tellMissing(logrus.InfoLevel, report)
				}
				continue
			}
			fails = append(fails, report)
		}
		a.tellMissing(logrus.ErrorLevel, fails...)
	}
	if len(parts) > 0 {
		a.Log.Warn(session.Unreached(parts))
	}
	line := t.Sum.String()
	if n := len(missing); n > 0 {
		line += ", " + session.Count(n, "library missing", "libraries missing")
	}
	err := t.End(&patchSummary{&t.Sum, missing}, line)
	if err == nil && len(missing) > len(parts) {
		err = command.ErrFailed
	}
	return err
}

// tellMissing says which libraries are missing, what for, and below those that are alike what helps with each.
func (a *autoPatchelf) tellMissing(level logrus.Level, all ...missingReport) {
	if len(all) > session.FewLacking && a.settings.Mode.ByHand() && !a.Verbose {
		var names, files []string
		for i := range all {
			names, files = append(names, all[i].Name), remedy.Union(files, all[i].NeededBy)
		}
		a.Log.Log(level, session.Lacking(names, session.Count(len(files), "file", "files")))
		return
	}
	general := func(m *missingReport) string { return strings.ReplaceAll(m.Whole(), m.Name, "NAME") }
	before := "" // what helps with the one above, too
	for i := range all {
		m := &all[i]
		a.Log.Logf(level, "%s is missing, which %s", m.Name, someOf(m.NeededBy))
		for _, reason := range m.Reasons {
			a.Log.Logf(level, "  %s", reason)
		}
		fix := m.Whole()
		if before == general(m) {
			fix = before
		}
		if before = general(m); i+1 == len(all) || general(&all[i+1]) != before {
			a.Log.Logf(level, "  fix: %s", fix)
		}
	}
}

// apart reports whether only modules of Python's need a library that no import of their packages reaches.
func (a *autoPatchelf) apart(m *fixup.Absence, plans []*fixup.Plan) bool {
	return !slices.ContainsFunc(plans, func(p *fixup.Plan) bool {
		return slices.Contains(m.NeededBy, p.Object.Path) && a.imported().Reaches(p.Object.Real)
	}) && m.Outside == ""
}

// reportOf is what a result has for the document: what was in the file and what is.
func reportOf(res *fixup.Result) *patchReport {
	found, now := res.Before, res.After
	r := &patchReport{Report: session.NewReport(res.Path, runpath.Parse(found.List)), Libraries: []libraryReport{}}
	r.Tag, r.After = normalform.TagName(now.Tag), session.EntriesOf(runpath.Parse(now.List))
	if now.Interpreter != found.Interpreter {
		r.Interpreter = &interpreterReport{found.Interpreter, now.Interpreter}
	}
	note := edit.NoteChange(found.Note, now.Note)
	if res.NoNote != nil {
		note, r.Warn = edit.NoteImpossible, append(r.Warn, res.NoNote.Error())
	}
	r.ResolutionNote = string(note)
	if r.Line = "unchanged"; res.Edited {
		parts := res.Parts()
		if note.Changed() {
			parts = append(parts, normalform.NoteLine(note))
		}
		r.Action, r.Line = tree.Edited, normalform.PartsLine(parts, found.Tag, now.Tag, found.List, now.List, nil)
	}
	return r
}

// someOf lists who needs a library: "x needs", "x, y and 3 more need".
func someOf(paths []string) string {
	const most = 3
	switch n := len(paths); {
	case n == 1:
		return command.Printable(paths[0]) + " needs"
	case n <= most:
		return command.Printable(strings.Join(paths[:n-1], ", ")+" and "+paths[n-1]) + " need"
	default:
		return fmt.Sprintf("%s and %d more need", command.Printable(strings.Join(paths[:most], ", ")), n-most)
	}
}

// file reports one file.
func (a *autoPatchelf) file(p *fixup.Plan) *patchReport {
	r := reportOf(&p.Result)
	r.Notes = append(p.Surprises, p.Notes...)
	if p.NoLoader != "" {
		r.Notes = append(r.Notes, fmt.Sprintf("the program does not start here: its interpreter %s %s", p.State().Interpreter,
			p.NoLoader))
	}
	log := a.Log.WithField("path", r.Path)
	for _, n := range p.Needs {
		l := libraryReport{Name: n.Label(), Cause: string(n.Cause), Outcome: string(n.Outcome)}
		if n.Outcome == fixup.Found {
			l.Path = &n.Candidate.Path
		}
		for _, reject := range n.Rejected {
			l.Rejected = append(l.Rejected, reject.Path+" "+reject.Why)
		}
		r.Libraries = append(r.Libraries, l)
		switch {
		case n.Outcome == fixup.Missing:
			r.Missing = append(r.Missing, n.Label())
		case n.Outcome == fixup.Ignored && len(n.Rejected) > 0:
			log.Warnf("%s is ignored (pattern %q), though it is there: %s %s", n.Label(), n.Pattern, n.Rejected[0].Path,
				n.Rejected[0].Why)
		case n.Outcome == fixup.Ignored && !a.structured:
			log.Debugf("%s is missing and ignored (pattern %q)", n.Label(), n.Pattern)
		case len(n.Rejected) > 0:
			log.Infof("%s: %s %s", n.Label(), n.Rejected[0].Path, n.Rejected[0].Why)
		}
	}
	for _, note := range p.Notes {
		log.Info(note)
	}
	switch err := cmp.Or(p.Err, p.Worse); {
	case err != nil:
		if p.Result.Edited {
			log.Info(r.Line)
		}
		r.Fail(err)
	case p.Skip != "":
		if r.Action, r.Reason, r.Line = tree.Skipped, p.Skip, ""; p.SkipWarn {
			r.Level = logrus.WarnLevel
		}
	}
	if p.Result.Edited {
		if p.KeptRPath != nil {
			kept := keptRPath(*p.KeptRPath)
			r.Notes, r.Line = append(r.Notes, kept), r.Line+" ("+command.Printable(kept)+")"
		}
		if len(p.Lost) > 0 {
			r.Info = append(r.Info, "dropped "+strings.Join(p.Lost, ", ")+": a stub directory, or not there")
		}
		if len(p.Dropped) > 0 {
			r.Info = append(r.Info, "nothing uses "+strings.Join(p.Dropped, ", "))
		}
		r.Notes = append(r.Notes, r.Info...)
	}
	return r
}

// events prints what nixpkgs' auto-patchelf prints with --structured-logs: an object a
// line, whose one key is the kind of event.
func (a *autoPatchelf) events(plans []*fixup.Plan) {
	event := func(kind string, fields any) {
		b, _ := command.JSON(map[string]any{kind: fields}, "") // what cannot be written is known to [command.Run]
		a.Stdout.Write(append(b, '\n'))
	}
	type of map[string]string
	type dependency struct {
		File     string  `json:"file"`
		Name     string  `json:"name"`
		Found    bool    `json:"found"`
		Location *string `json:"location"`
	}
	for _, p := range plans {
		file := p.Object.Path
		if p.Err != nil || p.Object.SameAs != "" {
			continue
		}
		if p.Skip != "" {
			event("SkipFile", of{"file": file, "reason": p.Skip})
			continue
		}
		if p.Interpreter != "" {
			event("SetInterpreter", of{"file": file, "interpreter_path": p.Interpreter})
		}
		for _, n := range p.Needs {
			switch n.Outcome {
			case fixup.Found:
				event("Dependency", dependency{file, n.Name, true, &n.Candidate.Dir})
			case fixup.Missing, fixup.Ignored:
				event("Dependency", dependency{file, n.Label(), false, nil})
			}
		}
		if p.Set != nil {
			event("SetRpath", of{"file": file, "rpath": p.After.String()})
		}
	}
	for _, p := range plans {
		for _, n := range p.Needs {
			if n.Outcome == fixup.Ignored {
				event("IgnoredDependency", of{"file": p.Object.Path, "name": n.Label(), "pattern": n.Pattern})
			}
		}
	}
}

// undo takes back what records tell of the session's paths.
func undo(s *session.Session, c *command.Line) error {
	t := s.Telling()
	paths := slices.DeleteFunc(slices.Clone(s.Paths), func(path string) bool {
		real, err := regular.Real(path)
		if err != nil || s.Refuse == nil {
			return false // Undo says what is wrong with it
		}
		err, _ = s.Refuse(real, true)
		if err != nil {
			r := session.NewReport(path, nil)
			r.Fail(err)
			t.File(&patchReport{Report: r, Libraries: []libraryReport{}})
		}
		return err != nil
	})
	t.Stop(fixup.Undo(s.Context, paths, fixup.Undoing{
		Carrying: fixup.Carrying{Jobs: s.Jobs, DryRun: s.DryRun},
		InPlace:  c.Bool("in-place"), Force: c.Bool("force"), Refuse: s.Refuse,
		Waiting: waiting(s),
	}, func(u fixup.Undone) {
		if u.Gone.N > 0 {
			s.Log.WithField("path", u.Path).Warnf("dropped %s from the record: gone, such as %s",
				session.Count(u.Gone.N, "file", "files"), command.Printable(u.Gone.First))
			return
		}
		r := reportOf(&u.Result)
		if r.Notes = u.Parts(); r.Interpreter != nil { // it has a field
			r.Notes = r.Notes[1:]
		}
		switch {
		case u.SameAs != "":
			r.Action, r.Reason, r.Line = tree.Skipped, "the same file as "+u.SameAs, ""
		case u.Err != nil:
			if u.Edited {
				s.Log.WithField("path", u.Path).Info(r.Line)
			}
			r.Fail(u.Err)
		}
		if !s.DryRun {
			r.Left = u.Left
		}
		t.File(r)
	}))
	return t.End(&t.Sum, t.Sum.String())
}

// keptRPath says why a file has a DT_RPATH.
func keptRPath(loss fixup.Loss) string {
	return fmt.Sprintf(
		"DT_RPATH, because libraries inherit it and so find %s; --force-runpath writes DT_RUNPATH anyway", loss)
}
