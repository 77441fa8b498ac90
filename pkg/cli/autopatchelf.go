package cli

import (
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/fixup"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/normal"
	"cuda-runpath/pkg/runpath"
)

// AutoPatchelf returns the app that makes prebuilt files find their libraries.
func AutoPatchelf() *command.Command {
	app := New("autoPatchelf", "PATH...", "make prebuilt programs and libraries find the libraries that they need", `
Every program below the PATHs gets the interpreter that is asked for, and every program and library the run path that makes
the loader find the libraries it needs: first the tree's own, then those of --libs. A library is taken only if the loader
would: for the file's machine, and with every symbol version that the file needs of it. Stubs are never taken. Then the
loader's rules are applied to each program, to see that it loads what was planned.

On what another package manager installed (a .venv, node_modules, a conda prefix), as in

    autoPatchelf --libs /nix/store/...-gcc-lib/lib .venv

entries that lead somewhere stay, after those that are added, programs keep their interpreters unless --interpreter is
given, files for other machines are skipped, and a record beside the tree (PATH.autopatchelf.json) lets --undo take
everything back.

It also reads the command line of nixpkgs' auto-patchelf: with --paths, the options --paths, --libs,
--runtime-dependencies, --append-rpaths and --ignore-missing take lists, up to the next option, and --extra-args takes
the rest. The interpreter is then the one of $NIX_BINTOOLS, existing run paths are replaced, and there is no record.`+exitStatus)
	app.Flags = append(app.Flags,
		&command.Flag{Kind: command.List, Name: "libs", Usage: "look for libraries in `DIR` (repeatable)"},
		&command.Flag{Kind: command.List, Name: "interpreter", Usage: "use `LOADER` as the interpreter of programs for its machine (repeatable)", DefaultText: "with --paths, that of $NIX_BINTOOLS; otherwise none"},
		&command.Flag{Kind: command.List, Name: "runtime-dependencies", Usage: "begin the run path of each program with `DIR` (repeatable)"},
		&command.Flag{Kind: command.List, Name: "append-rpaths", Usage: "end each run path with `ENTRY` (repeatable)"},
		&command.Flag{Kind: command.List, Name: "ignore-missing", Usage: "libraries whose names match `PATTERN` may be missing (repeatable)"},
		&command.Flag{Name: "no-recurse", Usage: "leave out the directories in a PATH"},
		&command.Flag{Name: "keep-libc", Usage: "look for the C library's names in --libs too"},
		&command.Flag{Name: "ignore-existing", Usage: "do not look for libraries in the PATHs themselves"},
		&command.Flag{Name: "preserve-origin", Usage: "keep entries that begin with $ORIGIN, and without --paths all that exist", DefaultText: "true, with --paths false"},
		&command.Flag{Name: "relativize-rpath", Aliases: []string{"relative-rpaths"}, Usage: "write directories below a PATH relative to $ORIGIN, so that it can be moved"},
		&command.Flag{Name: "dlopen", Usage: "also find the driver's and CUDA's libraries that a file names in read-only data; runtime dependencies are for libraries too"},
		&command.Flag{Name: "minimal", Usage: "leave out entries that nothing uses"},
		&command.Flag{Kind: command.String, Name: "enforce-priority", Default: "suggested", Usage: "libraries in .note.dlopen may be missing if below the priority `suggested|recommended|required`"},
		&command.Flag{Name: "no-set-interpreter", Usage: "leave interpreters as they are"},
		&command.Flag{Kind: command.List, Name: "hints", Usage: "`FILE` says which package has a library: lines \"SONAME ATTRIBUTE\", or nix-locate's output (repeatable)"},
		&command.Flag{Name: "structured-logs", Usage: "print events to stdout as JSON lines, as nixpkgs' auto-patchelf does"},
		&command.Flag{Kind: command.List, Name: "tool", Usage: "do what `NAME` does in the same edit: " + toolNames() + " (repeatable)"},
		&command.Flag{Kind: command.List, Name: "temporary", Usage: "fail if a run path would name a directory below `DIR`, which is gone after the build (repeatable)"},
		&command.Flag{Name: "expect-driver", Usage: "the GPU driver's libraries are found through the driver link, which something else adds"},
		&command.Flag{Name: "undo", Usage: "give files below PATH the run paths and interpreters that they had before"},
		&command.Flag{Name: "no-record", Usage: "keep no record for --undo"},
		&command.Flag{Name: "keep-links", Usage: "edit files in place even if they have hard links outside the PATHs, such as in a package manager's cache"},
		&command.Flag{Name: "in-build", Hidden: true},
		&command.Flag{Kind: command.List, Name: "extra-arg", Hidden: true},
		&command.Flag{Kind: command.String, Name: "when", Default: "always", Usage: "autoAddDriverRunpath: which files, `always|needed`"},
		stubFlag, driverLinkFlag, compatFlag,
		positionFlag,
		forceRPathFlag,
		copyFlag, DryRunFlag,
	)
	app.Flags = append(app.Flags, treeFlags...)
	app.Arguments = func(args []string) ([]string, error) {
		return autoPatchelfArguments(args, func(name string) bool { return command.TakesValue(app.Flags, name) })
	}
	app.Action = func(c *command.Line) error {
		session, err := start(c, c.Args)
		if err != nil {
			return err
		}
		if c.Bool("undo") {
			return undo(session, c.Bool("keep-links"))
		}
		a, err := newAutoPatchelf(c, session)
		if err != nil {
			return err
		}
		return a.run()
	}
	return app
}

// autoPatchelf is one run.
type autoPatchelf struct {
	*session
	sources    fixup.Sources
	settings   fixup.Settings
	hints      *fixup.Hints
	inBuild    bool // nixpkgs' command line
	record     bool
	structured bool
	keepLinks  bool

	editor *editor
	maps   runpath.Map
}

func newAutoPatchelf(c *command.Line, s *session) (*autoPatchelf, error) {
	// What nixpkgs' program lists as paths may be links, or not there at all.
	a := &autoPatchelf{session: s, hints: &fixup.Hints{}, inBuild: c.Bool("in-build"), structured: c.Bool("structured-logs"), keepLinks: c.Bool("keep-links")}
	a.record = !a.inBuild && !c.Bool("no-record") && !s.DryRun
	if a.structured && s.JSON {
		return nil, command.Misuse("--structured-logs and --json both print to stdout: give one of them")
	}
	priority, ok := fixup.ParsePriority(c.String("enforce-priority"))
	if !ok {
		return nil, command.Misusef("--enforce-priority %q: suggested, recommended or required", c.String("enforce-priority"))
	}
	for _, dir := range c.StringSlice("libs") {
		if dir == "" {
			return nil, command.Misuse("--libs: no directory is given")
		}
	}
	a.sources = fixup.Sources{
		Libs:        c.StringSlice("libs"),
		Shallow:     c.Bool("no-recurse"),
		WithoutTree: c.Bool("ignore-existing"),
		Store:       strings.TrimSuffix(cmpOr(os.Getenv("NIX_STORE"), "/nix/store"), "/"),
		Stubs:       driver.StubDirs{Patterns: c.StringSlice("stub")},
		Jobs:        s.Jobs,
	}
	a.settings = fixup.Settings{
		RuntimeDependencies: c.StringSlice("runtime-dependencies"),
		AppendRunpaths:      c.StringSlice("append-rpaths"),
		KeepLibC:            c.Bool("keep-libc"),
		PreserveOrigin:      c.Bool("preserve-origin") || !a.inBuild && !c.IsSet("preserve-origin"),
		KeepEntries:         !a.inBuild && (c.Bool("preserve-origin") || !c.IsSet("preserve-origin")),
		Relativize:          c.Bool("relativize-rpath"),
		Dlopen:              c.Bool("dlopen"),
		Minimal:             c.Bool("minimal"),
		EnforcePriority:     priority,
		KeepInterpreter:     c.Bool("no-set-interpreter"),
		Ignore:              c.StringSlice("ignore-missing"),
		ForceRPath:          c.Bool("force-rpath"),
		Temporary:           c.StringSlice("temporary"),
	}
	if err := a.extraArguments(c.StringSlice("extra-arg")); err != nil {
		return nil, err
	}
	if err := a.tools(c); err != nil {
		return nil, err
	}
	if a.settings.Dlopen {
		a.sources.Literals = driver.NeedsDriver
	}
	if a.editor.WhenNeeds {
		a.sources.NeedsDriver = normal.NeedsDriver
	}
	if a.settings.Minimal && a.settings.KeepEntries { // a file's own entries may be there for what it opens
		a.sources.Literals = func(string) bool { return true }
	}
	if err := a.interpreters(c.StringSlice("interpreter")); err != nil {
		return nil, err
	}
	for _, name := range c.StringSlice("hints") {
		if err := a.readHints(name); err != nil {
			return nil, err
		}
	}
	return a, a.paths()
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// paths leaves out what nixpkgs' program passes over: links to files, and with
// --paths what is not there.
func (a *autoPatchelf) paths() error {
	for _, p := range a.Paths {
		st, err := os.Lstat(p)
		if err == nil && st.Mode()&fs.ModeSymlink != 0 {
			if st, err = os.Stat(p); err == nil && !st.IsDir() {
				a.Log.WithField("path", p).Warn("is a symbolic link to a file, which is skipped: name the file")
				continue
			}
		}
		if errors.Is(err, fs.ErrNotExist) && a.inBuild {
			a.Log.WithField("path", p).Warn("does not exist")
			continue
		}
		a.sources.Paths = append(a.sources.Paths, p)
	}
	return nil
}

// extraArguments reads what nixpkgs' program would pass on to patchelf.
func (a *autoPatchelf) extraArguments(args []string) error {
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; arg {
		case "--force-rpath":
			a.settings.ForceRPath = true
		case "--no-clobber-old-sections", "--clobber-old-sections", "--debug", "--no-sort", "--allow-broken":
			a.Log.Infof("patchelf's %s changes nothing here", arg)
		case "--page-size":
			i++
			a.Log.Infof("patchelf's %s changes nothing here: the file's own alignment is kept", arg)
		default:
			return command.Misusef("patchelf's %s is not understood here: run patchelf itself, or leave it out of patchelfFlags", arg)
		}
	}
	return nil
}

// tools reads which maps are applied in the same edit.
func (a *autoPatchelf) tools(c *command.Line) (err error) {
	if a.editor, err = newEditor(c); err != nil {
		return err
	}
	all := Tools()
	for _, name := range c.StringSlice("tool") {
		i := slices.IndexFunc(all, func(t *Tool) bool { return t.Name == name })
		if i < 0 {
			return command.Misusef("--tool %s: %s", name, toolNames())
		}
		a.maps |= all[i].Map
		if all[i].Configure != nil {
			if err := all[i].Configure(c, a.editor); err != nil {
				return err
			}
		}
	}
	a.settings.Machines = ownMachines()
	a.settings.Driver = c.Bool("expect-driver")
	a.editor.StubDirs = a.sources.Stubs
	if a.maps == 0 {
		for _, flag := range []string{"driver-link", "compat", "position", "when"} {
			if c.IsSet(flag) {
				return command.Misusef("--%s is for a --tool: name the tool too", flag)
			}
		}
		return nil
	}
	a.settings.Driver = a.settings.Driver || a.maps&(runpath.AddDriverLink|runpath.ReplaceStubs) != 0
	forms := normal.New(a.editor.Settings)
	a.settings.Map = func(o *fixup.Object, l runpath.List) runpath.List {
		maps := a.maps
		if a.editor.WhenNeeds && !o.NeedsDriver {
			maps &^= runpath.AddDriverLink
		}
		after, _ := forms.Apply(normal.File{Path: o.Real, Class: o.ABI.Class, Machine: o.ABI.Machine, Needed: o.Needed}, l, maps)
		return after
	}
	return nil
}

// ownMachines are those whose programs run here; nil where that is not known.
func ownMachines() []elf.Machine {
	switch runtime.GOARCH {
	case "amd64", "386":
		return []elf.Machine{elf.EM_X86_64, elf.EM_386}
	case "arm64", "arm":
		return []elf.Machine{elf.EM_AARCH64, elf.EM_ARM}
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
	if len(given) > 0 || !a.inBuild {
		return nil
	}
	if bintools == "" {
		a.Log.Warn("$NIX_BINTOOLS is not set and no --interpreter is given: programs keep their interpreters")
		return nil
	}
	read := func(name string) (string, error) {
		b, err := os.ReadFile(path.Join(bintools, "nix-support", name))
		return strings.TrimSpace(string(b)), err
	}
	interp, err := read("dynamic-linker")
	if err != nil {
		return fmt.Errorf("the interpreter of $NIX_BINTOOLS: %w", err)
	}
	libc, err := read("orig-libc")
	if err != nil {
		return fmt.Errorf("the C library of $NIX_BINTOOLS: %w", err)
	}
	a.settings.Interpreters = append(a.settings.Interpreters, fixup.Interpreter{Path: interp, LibC: libc + "/lib"})
	if interp, err := read("dynamic-linker-m32"); err == nil && interp != "" {
		if _, err := os.Stat(interp); err == nil {
			a.settings.Interpreters = append(a.settings.Interpreters, fixup.Interpreter{Path: interp})
		}
	}
	return nil
}

func (a *autoPatchelf) readHints(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("--hints: %w", err)
	}
	defer f.Close()
	if err := a.hints.Read(f); err != nil {
		return fmt.Errorf("--hints %s: %w", name, err)
	}
	return nil
}

func (a *autoPatchelf) run() error {
	signal.Ignore(unix.SIGPIPE) // see editor.run
	var files atomic.Int64
	a.sources.Progress = func(n int) { files.Store(int64(n)) }
	stop := progress(a.session, func() string { return fmt.Sprintf("%d files read", files.Load()) })
	index, err := fixup.Read(a.Context, a.sources)
	stop()
	if err != nil {
		a.Log.Error(err)
		return command.ErrFailed
	}
	a.tellOutside(index.LibrariesOutside(a.Context))
	if !a.inBuild || len(a.settings.Interpreters) == 0 {
		a.settings.System = systemLibraries()
	}
	resolver, err := fixup.NewResolver(index, a.settings)
	if err != nil {
		return err
	}
	plans := resolver.ResolveAll(a.Jobs)
	linked := 0
	var steps []fixup.Step
	for _, p := range plans {
		if p.Changes() {
			outside := p.Object.LinkedOutside() > 0
			steps = append(steps, fixup.Step{Path: p.Object.Path, From: p.Object.State(), To: p.State(),
				Copy: a.copies(p), Also: p.Object.Also, InPlace: outside && !a.copies(p)})
			if outside && a.copies(p) {
				linked++
			}
		}
	}
	failed := map[string]error{}
	if !a.DryRun {
		if err := a.apply(steps, failed); err != nil {
			return err
		}
		for _, p := range plans {
			if p.SkipMalformed(failed[p.Object.Path]) {
				delete(failed, p.Object.Path)
			}
		}
	}
	surprises := map[string][]fixup.Surprise{}
	if !a.DryRun {
		if surprises, err = a.verify(plans, failed); err != nil {
			return err
		}
	}
	if !a.DryRun {
		a.tellCopies(linked)
	}
	return a.report(index, resolver, plans, failed, surprises)
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
	verb := "lead"
	if len(links) == 1 {
		verb = "leads"
	}
	a.Log.Warnf("%s %s to libraries outside the tree, which are left as they are: %s. Links are not followed; if a package manager made them (uv with --link-mode symlink), let it make copies (--link-mode copy) and run this again",
		count(len(links), "symbolic link", "symbolic links"), verb, command.Printable(first))
}

// tellCopies says of how many files a copy was edited because of hard links outside the tree.
func (s *session) tellCopies(n int) {
	if n > 0 {
		s.Log.Infof("%s had hard links outside the tree, as uv and pnpm make to their caches: copies replaced them, and the other links keep the old contents (--keep-links edits in place)",
			count(n, "edited file", "edited files"))
	}
}

// copies reports whether a copy of the file is edited. By hand that is so where hard links
// outside of the tree lead to it: they are a package manager's cache or store, which other
// trees are made from, and which may be checked against its hashes.
func (a *autoPatchelf) copies(p *fixup.Plan) bool {
	return a.Copy || !a.inBuild && !a.keepLinks && p.Object.LinkedOutside() > 0
}

// apply writes the record, then the files.
func (a *autoPatchelf) apply(steps []fixup.Step, failed map[string]error) error {
	if len(steps) == 0 {
		return nil
	}
	if a.record {
		for _, root := range a.sources.Paths {
			r, err := fixup.OpenRecord(root)
			if err != nil {
				return fmt.Errorf("the record for --undo: %w (--no-record: do without)", err)
			}
			var mine []fixup.Step
			for _, s := range steps {
				if r.Contains(s.Path) {
					mine = append(mine, s)
				}
			}
			r.Add(mine)
			if err := r.Save(); err != nil {
				return fmt.Errorf("the record for --undo: %w (--no-record: do without)", err)
			}
		}
	}
	var done atomic.Int64
	defer progress(a.session, func() string { return fmt.Sprintf("%d of %d files edited", done.Load(), len(steps)) })()
	err := fixup.Apply(a.Context, steps, fixup.Carrying{Roots: a.sources.Paths, Jobs: a.Jobs}, func(r fixup.Result) {
		done.Add(1)
		if r.Err != nil {
			failed[r.Path] = r.Err
		}
	})
	if err != nil {
		a.Log.Error(err)
		return command.ErrFailed
	}
	return nil
}

func (a *autoPatchelf) verify(plans []*fixup.Plan, failed map[string]error) (map[string][]fixup.Surprise, error) {
	var done []*fixup.Plan
	for _, p := range plans {
		if failed[p.Object.Path] == nil {
			done = append(done, p)
		}
	}
	all, err := fixup.Verify(done, loader.Options{NoTries: true}, a.Jobs)
	if err != nil {
		return nil, fmt.Errorf("looking at the result as the loader does: %w", err)
	}
	by := map[string][]fixup.Surprise{}
	for _, s := range all {
		by[s.File] = append(by[s.File], s)
	}
	return by, nil
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
	fileReport
	Interpreter *struct {
		Before string `json:"before"`
		After  string `json:"after"`
	} `json:"interpreter,omitempty"`
	Libraries []libraryReport `json:"libraries"`
}

// missingReport is one element of "missing".
type missingReport struct {
	Name     string   `json:"name"`
	NeededBy []string `json:"needed_by"`
	Reasons  []string `json:"reasons"`
	Packages []string `json:"packages"`
	Fix      string   `json:"fix"`
}

// patchSummary is the JSON document's "summary".
type patchSummary struct {
	runSummary
	Missing []missingReport `json:"missing"`
}

func (a *autoPatchelf) report(index *fixup.Index, resolver *fixup.Resolver, plans []*fixup.Plan, failed map[string]error, surprises map[string][]fixup.Surprise) error {
	summary := patchSummary{runSummary: runSummary{DryRun: a.DryRun, Skipped: index.Others}, Missing: []missingReport{}}
	var doc *jsonDocument
	if a.JSON {
		doc = newDocument(a.Stdout)
	}
	for _, p := range plans {
		if doc == nil && a.uneventful(p, failed, surprises) {
			summary.count(actionUnchanged)
			continue
		}
		r := a.file(p, failed[p.Object.Path], surprises[p.Object.Path])
		summary.count(r.Action)
		if doc != nil {
			doc.file(r)
		}
	}
	if a.structured {
		a.events(plans)
	}
	for _, text := range resolver.UnusedPatterns() {
		a.Log.Warn(text)
	}
	for _, m := range resolver.Absences(plans, a.hints) {
		report := missingReport{m.Name, m.NeededBy, m.Reasons(), m.Attributes, m.Fix(a.inBuild)}
		summary.Missing = append(summary.Missing, report)
		a.Log.Errorf("%s is missing, which %s", m.Name, someOf(m.NeededBy))
		for _, reason := range report.Reasons {
			a.Log.Errorf("  %s", reason)
		}
		a.Log.Errorf("  fix: %s", report.Fix)
	}
	if a.structured {
		a.JSON = true // stdout belongs to the events
	}
	switch {
	case doc != nil:
		if err := doc.close(summary); err != nil {
			return fmt.Errorf("writing the JSON document: %w", err)
		}
	case !a.Quiet && !a.structured:
		line := summary.String()
		if n := len(summary.Missing); n > 0 {
			line += ", " + count(n, "library missing", "libraries missing")
		}
		if _, err := fmt.Fprintln(a.Stdout, line); err != nil {
			return fmt.Errorf("writing the summary: %w", err)
		}
	}
	if summary.Failed > 0 || len(summary.Missing) > 0 {
		return command.ErrFailed
	}
	return nil
}

// uneventful reports whether file has nothing to say of a file but that it is unchanged,
// which nobody asked for: in most runs that is so for most files.
func (a *autoPatchelf) uneventful(p *fixup.Plan, failed map[string]error, surprises map[string][]fixup.Surprise) bool {
	if a.Verbose || p.Skip != "" || p.Err != nil || p.Changes() || failed[p.Object.Path] != nil || len(surprises[p.Object.Path]) > 0 ||
		len(p.Warnings) > 0 || len(p.Lost) > 0 || len(p.Dropped) > 0 {
		return false
	}
	return !slices.ContainsFunc(p.Needs, func(n *fixup.Need) bool { return len(n.Rejected) > 0 })
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

// file reports one file, and logs it.
func (a *autoPatchelf) file(p *fixup.Plan, failed error, surprises []fixup.Surprise) *patchReport {
	o := p.Object
	r := &patchReport{fileReport: fileReport{Path: o.Path, PathBytes: pathBytes(o.Path), Tag: tagName(o.Tag),
		Before: entriesOf(p.Before), After: entriesOf(p.Before)}, Libraries: []libraryReport{}}
	log := a.Log.WithField("path", o.Path)
	err := p.Err
	if failed != nil {
		err = failed
	}
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
			log.Warnf("%s is ignored (pattern %q), though it is there: %s %s", n.Label(), n.Pattern, n.Rejected[0].Path, n.Rejected[0].Why)
		case n.Outcome == fixup.Ignored && !a.structured:
			log.Debugf("%s is missing and ignored (pattern %q)", n.Label(), n.Pattern)
		case len(n.Rejected) > 0:
			log.Infof("%s: %s %s", n.Label(), n.Rejected[0].Path, n.Rejected[0].Why)
		}
	}
	for _, w := range p.Warnings {
		log.Warn(w)
	}
	for _, s := range surprises {
		r.Notes = append(r.Notes, s.Text)
		if err == nil {
			err = errors.New("the loader would not do what was planned: " + s.Text)
		}
	}
	state := p.State()
	switch {
	case err != nil:
		r.Action, r.Reason = actionFailed, err.Error()
		log.Error(err)
	case p.Skip != "":
		r.Action, r.Reason = actionSkipped, p.Skip
		level := logrus.DebugLevel
		if p.SkipWarn {
			level = logrus.WarnLevel
		}
		log.Logf(level, "skipped: %s", p.Skip)
	case !p.Changes():
		r.Action = actionUnchanged
		log.Debug("unchanged")
	default:
		r.Action, r.After, r.Tag = actionEdited, entriesOf(p.After), tagName(state.Tag)
		var parts []string
		if state.Interpreter != o.Interp {
			parts = append(parts, fmt.Sprintf("interpreter %s -> %s", command.Printable(o.Interp), command.Printable(state.Interpreter)))
			r.Interpreter = &struct {
				Before string `json:"before"`
				After  string `json:"after"`
			}{o.Interp, state.Interpreter}
		}
		if state.List != o.List || state.Tag != o.Tag {
			parts = append(parts, changeLine(o.Tag, state.Tag, o.List, state.List, nil))
		}
		log.Info(strings.Join(parts, "; "))
	}
	if len(p.Lost) > 0 && p.Skip == "" {
		note := "dropped " + strings.Join(p.Lost, ", ") + ": a stub directory, or not there"
		r.Notes = append(r.Notes, note)
		log.Info(note)
	}
	if len(p.Dropped) > 0 {
		note := "nothing uses " + strings.Join(p.Dropped, ", ")
		r.Notes = append(r.Notes, note)
		log.Info(note)
	}
	return r
}

// events prints what nixpkgs' auto-patchelf prints with --structured-logs: an object a
// line, whose one key is the kind of event.
func (a *autoPatchelf) events(plans []*fixup.Plan) {
	out := json.NewEncoder(a.Stdout)
	out.SetEscapeHTML(false)
	type event = map[string]any
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
			out.Encode(event{"SkipFile": struct {
				File   string `json:"file"`
				Reason string `json:"reason"`
			}{file, p.Skip}})
			continue
		}
		if p.Interpreter != "" {
			out.Encode(event{"SetInterpreter": struct {
				File string `json:"file"`
				Path string `json:"interpreter_path"`
			}{file, p.Interpreter}})
		}
		for _, n := range p.Needs {
			switch n.Outcome {
			case fixup.Found:
				out.Encode(event{"Dependency": dependency{file, n.Name, true, &n.Candidate.Dir}})
			case fixup.Missing, fixup.Ignored:
				out.Encode(event{"Dependency": dependency{file, n.Label(), false, nil}})
			}
		}
		if p.Set != nil {
			out.Encode(event{"SetRpath": struct {
				File  string `json:"file"`
				RPath string `json:"rpath"`
			}{file, p.After.String()}})
		}
	}
	for _, p := range plans {
		for _, n := range p.Needs {
			if n.Outcome == fixup.Ignored {
				out.Encode(event{"IgnoredDependency": struct {
					File    string `json:"file"`
					Name    string `json:"name"`
					Pattern string `json:"pattern"`
				}{p.Object.Path, n.Label(), n.Pattern}})
			}
		}
	}
}

// systemLibraries tells what a loader finds as the files are now: by ld.so.cache, in its
// default directories, and by entries of run paths that stay.
func systemLibraries() func(o *fixup.Object, name string) string {
	l, err := loader.New(loader.Options{NoTries: true})
	if err != nil {
		return nil
	}
	var loads sync.Map // *fixup.Object → *loader.Load
	return func(o *fixup.Object, name string) string {
		v, done := loads.Load(o)
		if !done {
			load, err := l.Load(o.Real)
			if err != nil {
				load = nil
			}
			v = load
			loads.Store(o, v)
		}
		load := v.(*loader.Load)
		if load == nil {
			return ""
		}
		for _, u := range load.Main.Uses {
			if u.Name == name && u.To.Found() && len(u.To.Lacks) == 0 {
				return u.To.Path
			}
		}
		return ""
	}
}

// undo takes back what the records beside the paths tell. As with the edit, a file to which
// hard links outside the tree lead is edited as a copy, unless the edit was theirs too.
func undo(s *session, keepLinks bool) error {
	summary := runSummary{DryRun: s.DryRun}
	var doc *jsonDocument
	if s.JSON {
		doc = newDocument(s.Stdout)
	}
	for _, root := range s.Paths {
		record, err := fixup.OpenRecord(root)
		if err != nil {
			return err
		}
		steps := record.Undo()
		outside, err := record.Links(s.Context, steps, s.Jobs)
		if err != nil {
			return err
		}
		linked := map[string]bool{}
		for i := range steps {
			protects := outside[steps[i].Path] && !steps[i].InPlace && !keepLinks
			steps[i].Copy = s.Copy || protects
			linked[steps[i].Path] = outside[steps[i].Path] && steps[i].Copy
		}
		copied := 0
		if len(steps) == 0 {
			s.Log.WithField("path", root).Warnf("there is nothing to undo: no record %s", record.File())
			continue
		}
		before := map[string]fixup.Step{}
		for _, step := range steps {
			before[step.Path] = step
		}
		left := map[string]bool{}
		tell := func(r fixup.Result) {
			step := before[r.Path]
			report := fileReport{Path: r.Path, PathBytes: pathBytes(r.Path), Action: actionEdited, Tag: tagName(step.To.Tag),
				Before: entriesOf(runpath.Parse(step.From.List)), After: entriesOf(runpath.Parse(step.To.List))}
			log := s.Log.WithField("path", r.Path)
			if r.Err != nil {
				left[r.Path] = true
				report.Action, report.Reason, report.After = actionFailed, r.Err.Error(), report.Before
				log.Error(r.Err)
			} else if r.Same {
				report.Action, report.Before = actionUnchanged, report.After
				log.Debug("unchanged: it is as it was before")
			} else {
				log.Info(changeLine(step.From.Tag, step.To.Tag, step.From.List, step.To.List, nil))
				if linked[r.Path] {
					copied++
				}
			}
			summary.count(report.Action)
			if doc != nil {
				doc.file(report)
			}
		}
		if s.DryRun {
			for _, step := range steps {
				tell(fixup.Result{Path: step.Path})
			}
			continue
		}
		if err := fixup.Apply(s.Context, steps, fixup.Carrying{Roots: []string{record.Root()}, Jobs: s.Jobs}, tell); err != nil {
			s.Log.Error(err)
			return command.ErrFailed
		}
		s.tellCopies(copied)
		record.Keep(left)
		if err := record.Save(); err != nil {
			return err
		}
	}
	if err := s.finish(doc, &summary, summary.String); err != nil {
		return err
	}
	if summary.Failed > 0 {
		return command.ErrFailed
	}
	return nil
}
