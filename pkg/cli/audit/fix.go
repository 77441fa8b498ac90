package audit

import (
	"cmp"
	"debug/elf"
	"errors"
	"maps"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/audit"
	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/normalform"
	"cuda-runpath/pkg/cli/session"
	"cuda-runpath/pkg/edit"
	"cuda-runpath/pkg/edit/runpaths"
	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/files"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/fixup"
	"cuda-runpath/pkg/inorder"
	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/normal"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/scripts"
	"cuda-runpath/pkg/tree"
)

// fixable are the situations whose remedies are carried out: what is wrong there is meant by nobody. The last is a note.
var fixable = []string{finding.StubEntry, finding.StubLoaded, finding.EmptyEntry, finding.BuildEntry,
	finding.NoDriverLink, finding.ShadowedRPath}

// fixing is one run that carries remedies out.
type fixing struct {
	*session.Session
	options  audit.Options
	loader   *loader.Loader
	settings normal.Settings
	all      bool // also what may be meant otherwise
	files    []*fixed
	scripts  []string
}

// fixed is one file of the tree, and what is done to it.
type fixed struct {
	path, first string // as it was walked; the name under which that file was seen before, "" for none
	real        string
	at          tree.Target
	also        []tree.Target // its other names here, and where these are
	names       []string
	changes     []*remedy.Change
	step        fixup.Step
	lost        *string // the DT_RPATH beside a DT_RUNPATH, which the loader ignores and no record has
}

// fix carries out the remedies of a tree, but for those that would add a finding to one of its starts. It returns a
// loader that sees what is then there, in a dry run what would be; nil where files have changed, and a new one does.
func fix(s *session.Session, c *command.Line, l *loader.Loader, options audit.Options, out *auditOutput) (
	*loader.Loader, error) {
	if out.rooted || out.closure || out.accepted.Update {
		return nil, command.Misuse("--fix changes files of this system that are named: not with --root, --closure, " +
			"--update-baseline")
	}
	if err := out.read(); err != nil {
		return nil, err
	}
	settings, err := normalform.Settings(c)
	if err != nil {
		return nil, err
	}
	options.Noted, options.Loads = false, false
	f := &fixing{Session: s, options: options, loader: l, settings: settings, all: c.String("fix") == "all"}
	var roots tree.Roots
	defer roots.Close()
	if err := f.walk(&roots); err != nil {
		return nil, err
	}
	before := f.audit(l)
	known := keys(before) // with what is ignored
	planned, err := f.plan(before, out)
	if err != nil || len(planned) == 0 {
		return l, err
	}
	taken := f.settle(planned, nil, known)
	if err := f.carry(c, taken); err != nil || !f.DryRun {
		return nil, err
	}
	return f.view(taken), nil
}

// walk finds the files of the tree, as an editor does: no link is followed.
func (f *fixing) walk(roots *tree.Roots) error {
	type seen struct {
		*fixed
		script string
	}
	by := map[string]*fixed{}
	return tree.Walk(f.Context, f.Paths, tree.Options{Jobs: f.Jobs, Keep: roots, Leftover: f.Leftover(), Refuse: f.Refuse},
		func(file *tree.File) (x seen, keep bool) {
			switch {
			case file.Err != nil:
				return x, false
			case !file.ELF():
				_, _, err := scripts.Read(file)
				x.script = file.Path
				return x, err == nil
			}
			real, err := regular.Real(file.Path)
			x.fixed = &fixed{path: file.Path, first: file.SameAs, real: real, at: file.Target()}
			return x, err == nil
		}, func(x seen) {
			if x.fixed == nil {
				f.scripts = append(f.scripts, x.script)
				return
			}
			if first := by[x.first]; first != nil {
				first.also, first.names = append(first.also, x.at), append(first.names, x.real)
			}
			by[x.path], f.files = x.fixed, append(f.files, x.fixed)
		})
}

// audit examines all starts of the tree as a loader sees them.
func (f *fixing) audit(l *loader.Loader) (reports []*explain.Report) {
	a := audit.New(l, f.options)
	for _, script := range f.scripts {
		a.Wrapper(script)
	}
	var all []*audit.Pending
	for _, file := range f.files {
		if file.first != "" {
			all = append(all, a.TakeLink(file.path, file.first))
		} else {
			all = append(all, a.Take(file.path, -1))
		}
	}
	inorder.Do(f.Jobs, len(all), func(i int) bool { a.Examine(all[i]); return true }, func(bool) {})
	for _, p := range all {
		reports = append(reports, a.Finish(p))
	}
	return reports
}

// plan gives each file the changes of the findings, in their order, and says what they make of it.
func (f *fixing) plan(reports []*explain.Report, out *auditOutput) (planned []*fixed, err error) {
	by := map[string]*fixed{}
	for _, file := range f.files {
		if file.first == "" {
			by[filepath.Clean(file.path)], by[file.real] = file, file
		}
	}
	for _, r := range reports {
		r.Ignore(out.ignore)
		out.accepted.Accept(r)
		for _, x := range r.Findings {
			file := by[filepath.Clean(x.Remedy.File)]
			if file == nil || !f.carriesOut(&x) {
				continue
			}
			if len(file.changes) == 0 {
				planned = append(planned, file)
			}
			file.changes = append(file.changes, x.Change)
		}
	}
	byPath, targets := map[string]*fixed{}, []tree.Target{}
	for _, file := range planned {
		byPath[file.path], targets = file, append(targets, file.at)
	}
	norm := normal.New(f.settings)
	err = tree.Files(f.Context, targets, tree.Options{Jobs: f.Jobs}, func(t *tree.File) (*fixed, bool) {
		file := byPath[t.Path]
		return file, file.would(t, norm, f.loader.Files().Open(file.real))
	}, func(*fixed) {})
	return slices.DeleteFunc(planned, func(file *fixed) bool {
		return file.step.To == file.step.From && file.lost == nil
	}), err
}

// carriesOut reports whether the remedy of a finding is one that this run carries out. Directories for libraries that are
// missing are autoPatchelf's, and what a resolution note says is nobody's here.
func (f *fixing) carriesOut(x *finding.Finding) bool {
	switch c := x.Change; {
	case c == nil, x.Accepted, c.Note != "", x.Severity == finding.Note && x.ID != finding.ShadowedRPath:
		return false
	default:
		return slices.Contains(fixable, x.ID) || f.all && len(c.AddEntries) == 0
	}
}

// would makes the step of a file: from what it has to what the editors make of it.
func (x *fixed) would(t *tree.File, norm *normal.Maps, now *files.File) bool {
	if now.NoteErr != nil { // no record takes that back
		return false
	}
	var maps runpath.Map
	rules, lists := false, false
	needed := now.Needed
	x.step = fixup.Step{At: x.at, Also: x.also, From: fixup.State{Tag: now.Tag, List: now.List, Interpreter: now.Interp,
		Note: now.Description}}
	x.step.To = x.step.From
	for _, c := range x.changes {
		if c.Rules != nil {
			maps, rules = maps|c.Rules.Maps, true
		}
		lists = lists || len(c.RemoveEntries)+len(c.ReplaceEntries) > 0
		x.step.To.Interpreter = cmp.Or(c.Interpreter, x.step.To.Interpreter)
		if c.ClearExecStack {
			x.step.From.Stack, x.step.To.Stack = fixup.Executable, fixup.Plain
		}
		needed = c.Libraries(needed)
	}
	if !slices.Equal(needed, now.Needed) {
		x.step.From.Needed, x.step.To.Needed = fixup.NeededOf(now.Needed), fixup.NeededOf(needed)
	}
	if rules || lists {
		entries := func(l runpath.List) runpath.List {
			for _, c := range x.changes {
				l = c.Entries(l)
			}
			return l
		}
		e := runpaths.Edit{Options: edit.Options{DryRun: true}, Normal: norm, Maps: maps, Entries: entries}
		if !rules {
			e.Rewrite = entries
		}
		if r := e.File(t); r.Action == edit.Edited {
			x.lost = r.Shadowed
			x.step.To.Tag, x.step.To.List = r.After.Tag, r.After.List.String()
		}
	}
	if x.step.To.List == "" {
		x.step.To.Tag = elf.DT_NULL
	}
	if x.step.To != x.step.From { // a note would contradict it
		x.step.To.Note = ""
	}
	return true
}

// keys are the errors and warnings of reports, by what makes two of them one. That this machine has no driver is none.
func keys(reports []*explain.Report) map[string]finding.Finding {
	all := map[string]finding.Finding{}
	for _, r := range reports {
		for _, x := range r.Findings {
			if x.Severity != finding.Note && x.ID != finding.DriverAbsent {
				all[audit.Digest(r.Path, &x)] = x
			}
		}
	}
	return all
}

// view is what a loader sees once the steps of some files are taken.
func (f *fixing) view(taken []*fixed) *loader.Loader {
	to := map[string]*fixed{}
	for _, file := range taken {
		for _, name := range append(file.names, file.real) {
			to[name] = file
		}
	}
	return f.loader.Edited(func(file *files.File) {
		x := to[file.Path]
		if x == nil {
			return
		}
		s := x.step.To
		file.List, file.Tag, file.Interp, file.Note, file.NoteErr = s.List, s.Tag, s.Interpreter, nil, nil
		file.RPath, file.Shadow = "", false
		if s.Stack != "" {
			file.ExecutableStack = ""
		}
		for _, c := range x.changes {
			if len(c.ReplaceNeeded)+len(c.AddNeeded) > 0 {
				file.Ask(c.Renamed(), strings.Join(c.AddNeeded, ""))
			}
		}
	})
}

// settle returns the files that were taken before with those of some others whose steps add no finding to any start of
// the tree then.
func (f *fixing) settle(planned, taken []*fixed, known map[string]finding.Finding) []*fixed {
	all := slices.Concat(taken, planned)
	after := keys(f.audit(f.view(all)))
	maps.DeleteFunc(after, func(key string, _ finding.Finding) bool { _, had := known[key]; return had })
	switch half := len(planned) / 2; {
	case len(after) == 0:
		return all
	case half == 0:
		key := slices.Sorted(maps.Keys(after))[0]
		f.Log.WithField("path", planned[0].path).Warnf("left as it is: with its remedies there would be another finding: %s",
			command.Printable(after[key].Message))
		return taken
	default:
		return f.settle(planned[half:], f.settle(planned[:half], taken, known), known)
	}
}

// carry edits the files, and says so as an editor does.
func (f *fixing) carry(c *command.Line, taken []*fixed) (err error) {
	if len(taken) == 0 {
		return nil
	}
	signal.Ignore(unix.SIGPIPE) // the files are finished all the same
	var records *fixup.Records
	if !f.DryRun {
		if records, err = fixup.OpenRecords(f.Context, f.Paths, func(tree string) {
			f.Log.WithField("path", tree).Warn("waiting for another run on this tree to finish")
		}); err != nil {
			return err
		}
		defer records.Close()
	}
	var steps []fixup.Step
	notes := map[string][]string{}
	for _, file := range taken {
		file.step.InPlace = c.Bool("in-place")
		steps = append(steps, file.step)
		if file.lost != nil {
			notes[file.path] = []string{normalform.Lost(*file.lost)}
		}
	}
	stopped, err := records.Carry(f.Context, steps, fixup.Carrying{Jobs: f.Jobs, DryRun: f.DryRun}, func(r fixup.Result) {
		log := f.Log.WithField("path", r.Path)
		if r.Err != nil {
			log.Error(r.Err) // what it was to settle is found again
			return
		}
		log.Info(normalform.PartsLine(r.Parts(), r.Before.Tag, r.After.Tag, r.Before.List, r.After.List, notes[r.Path]))
	})
	return errors.Join(err, stopped)
}
