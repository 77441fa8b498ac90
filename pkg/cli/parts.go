package cli

import (
	"debug/elf"
	"fmt"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/elfedit"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/tree"
)

// parts is what the commands interpreter, needed, soname, execstack and edit ask for,
// of each file alike. What is nil or empty stays as it is.
type parts struct {
	Interpreter   *string
	Soname        *string
	RemoveNeeded  []string
	ReplaceNeeded map[string]string // old to new
	AddNeeded     []string          // unless they are there
	AddFirst      bool              // before the others; else after them
	ExecStack     *bool
	RunPath       func(runpath.List) runpath.List
	ForceRPath    bool
}

// partChange is one thing that an edit changed, with its value before and after: a
// string, a list of strings, or for the executable stack a boolean. nil: there was none.
type partChange struct {
	Part   string `json:"part"` // interpreter, soname, needed, execstack, runpath
	Before any    `json:"before"`
	After  any    `json:"after"`
}

// partsReport is an element of "files" in the JSON document of these commands.
type partsReport struct {
	Path      string       `json:"path"`
	PathBytes []byte       `json:"path_base64,omitempty"`
	Action    action       `json:"action"`
	Reason    string       `json:"reason"`
	Changes   []partChange `json:"changes"`
	Notes     []string     `json:"notes,omitempty"`
}

// run edits the session's files. It returns command.ErrFailed where a file failed, after all
// others were done.
func (p *parts) run(s *session) error {
	signal.Ignore(unix.SIGPIPE) // see editor.run
	summary := runSummary{DryRun: s.DryRun}
	var notELF atomic.Int64
	run := sweep[*partsReport]{
		visit: func(f *tree.File) (*partsReport, bool) {
			if f.Err == nil && !f.ELF() && !s.JSON && !s.Verbose {
				notELF.Add(1)
				return nil, false
			}
			r := &partsReport{Path: f.Path, PathBytes: pathBytes(f.Path), Changes: []partChange{}}
			if err := r.guarded(p, f, s.DryRun); err != nil {
				r.Action, r.Reason, r.Notes = actionFailed, err.Error(), nil
				r.made(p, f)
			} else if s.Copy && r.Action == actionEdited {
				r.Notes = append(r.Notes, leftLinks(f)...)
			}
			return r, true
		},
		tell: func(r *partsReport) any {
			summary.count(r.Action)
			r.log(s.Log)
			return r
		},
		end: func(stopped string) any {
			summary.Skipped += int(notELF.Load())
			summary.Stopped = stopped
			return &summary
		},
		line: summary.String,
	}
	if err := run.run(s); err != nil {
		return err
	}
	if summary.Failed > 0 {
		return command.ErrFailed
	}
	return nil
}

func (r *partsReport) guarded(p *parts, f *tree.File, dryRun bool) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("internal error: %v; please report it, with the file", fault)
		}
		err = f.Blame(err)
	}()
	return r.edit(p, f, dryRun)
}

// made leaves of the changes those that were made although the edit failed.
func (r *partsReport) made(p *parts, f *tree.File) {
	planned := r.Changes
	r.Changes = []partChange{}
	again(f, func(im *elfimage.Image) {
		var left partsReport
		if _, _, err := left.change(p, im); err != nil {
			return
		}
		r.Changes = slices.DeleteFunc(planned, func(c partChange) bool {
			return slices.ContainsFunc(left.Changes, func(l partChange) bool { return l.Part == c.Part })
		})
	})
}

func (r *partsReport) log(to *logrus.Logger) {
	level := logrus.DebugLevel
	switch r.Action {
	case actionFailed:
		level = logrus.ErrorLevel
	case actionEdited:
		level = logrus.InfoLevel
	}
	if to.IsLevelEnabled(level) { // else the line need not be put together
		to.WithField("path", r.Path).Log(level, r.line())
	}
	for _, note := range r.Notes {
		to.WithField("path", r.Path).Warn(note)
	}
}

// line is what the log says of a file.
func (r *partsReport) line() string {
	switch r.Action {
	case actionSkipped:
		return "skipped: " + r.Reason
	case actionUnchanged:
		return "unchanged"
	case actionEdited:
		var changes []string
		for _, c := range r.Changes {
			changes = append(changes, c.Part+" "+partText(c.Before)+" -> "+partText(c.After))
		}
		return strings.Join(changes, "; ")
	}
	return r.Reason
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

func (r *partsReport) edit(p *parts, f *tree.File, dryRun bool) error {
	skip := func(reason string) error {
		r.Action, r.Reason = actionSkipped, reason
		return nil
	}
	switch {
	case f.Err != nil:
		return f.Err
	case !f.ELF():
		return skip(string(elfimage.NotELF))
	case f.SameAs != "":
		return skip("the same file as " + command.Printable(f.SameAs))
	}
	im, err := elfimage.ParseKept(f, f.Size(), f.Head())
	if err != nil {
		return err
	}
	defer im.Release()
	if reason := im.SkipReason(); reason != "" && !(p.headerOnly() && hasHeaders(im)) {
		return skip(string(reason))
	}
	change, inapplicable, err := r.change(p, im)
	switch {
	case err != nil:
		return err
	case len(r.Changes) == 0 && inapplicable != "":
		return skip(inapplicable)
	case len(r.Changes) == 0:
		r.Action = actionUnchanged
		return nil
	}
	plan, err := elfedit.Plan(im, change)
	if err != nil {
		return err
	}
	if plan == nil {
		r.Action, r.Changes = actionUnchanged, []partChange{}
		return nil
	}
	if !dryRun {
		if err := f.Write(func(w tree.Writer) error { return plan.Apply(w) }); err != nil {
			return err
		}
	}
	r.Action = actionEdited
	return nil
}

// headerOnly reports whether all that is asked for is in the program headers, which
// also a file without a dynamic section has.
func (p *parts) headerOnly() bool {
	return p.ExecStack != nil && p.Interpreter == nil && p.Soname == nil && p.RunPath == nil &&
		len(p.RemoveNeeded)+len(p.ReplaceNeeded)+len(p.AddNeeded) == 0
}

func hasHeaders(im *elfimage.Image) bool {
	return (im.Type == elf.ET_EXEC || im.Type == elf.ET_DYN) && len(im.Progs) > 0
}

// change returns what is to change in one file, and notes it in the report.
// inapplicable says why a part has no place in this kind of file.
func (r *partsReport) change(p *parts, im *elfimage.Image) (c elfedit.Change, inapplicable string, err error) {
	note := func(part string, before, after any) {
		r.Changes = append(r.Changes, partChange{part, before, after})
	}
	if p.Interpreter != nil {
		old, err := im.Interpreter()
		switch {
		case err != nil:
			return c, "", err
		case im.Prog(elf.PT_INTERP) == nil:
			inapplicable = "has no interpreter: it is a library"
		case old != *p.Interpreter:
			c.Interpreter = p.Interpreter
			note("interpreter", old, *p.Interpreter)
		}
	}
	if p.Soname != nil {
		old, err := im.Soname()
		_, has := im.Dyn(elf.DT_SONAME)
		switch {
		case err != nil:
			return c, "", err
		case !has && (im.Type != elf.ET_DYN || im.Prog(elf.PT_INTERP) != nil):
			inapplicable = "takes no soname: it is a program"
		case !has:
			c.Soname = p.Soname
			note("soname", nil, *p.Soname)
		case old != *p.Soname:
			c.Soname = p.Soname
			note("soname", old, *p.Soname)
		}
	}
	if len(p.RemoveNeeded)+len(p.ReplaceNeeded)+len(p.AddNeeded) > 0 {
		before, err := im.Needed()
		if err != nil {
			return c, "", err
		}
		after, renamed := p.needed(before)
		if !slices.Equal(before, after) {
			c.Needed = &elfedit.Needed{Names: after, Renamed: renamed}
			note("needed", entriesOf(before), entriesOf(after))
			if len(p.RemoveNeeded) > 0 {
				if err := r.orphans(im, before, after, renamed); err != nil {
					return c, "", err
				}
			}
		}
	}
	if p.ExecStack != nil {
		var before any
		stack := im.Prog(elf.PT_GNU_STACK)
		if stack != nil {
			before = stack.Flags&elf.PF_X != 0
		}
		if before != any(*p.ExecStack) {
			c.ExecStack = p.ExecStack
			note("execstack", before, *p.ExecStack)
		}
	}
	if p.RunPath != nil {
		if err := r.runPath(p, im, &c, note); err != nil {
			return c, "", err
		}
	}
	return c, inapplicable, nil
}

// needed returns the needed libraries as they are to be, and which of those before
// have another name then.
func (p *parts) needed(before []string) (after []string, renamed map[string]string) {
	renamed = map[string]string{}
	for _, name := range before {
		if slices.Contains(p.RemoveNeeded, name) {
			continue
		}
		if to, ok := p.ReplaceNeeded[name]; ok && to != name {
			renamed[name] = to
			name = to
		}
		after = append(after, name)
	}
	var added []string
	for _, name := range p.AddNeeded {
		if !slices.Contains(after, name) && !slices.Contains(added, name) {
			added = append(added, name)
		}
	}
	if p.AddFirst {
		return append(added, after...), renamed
	}
	return append(after, added...), renamed
}

// orphans notes the libraries that are no longer needed while versions of theirs are:
// unless another library brings them, glibc's loader stops at an assertion
// (elf/dl-version.c, _dl_check_map_versions).
func (r *partsReport) orphans(im *elfimage.Image, before, after []string, renamed map[string]string) error {
	versions, err := im.VersionsNeeded()
	if err != nil {
		return err
	}
	var told []string
	for _, v := range versions {
		if renamed[v.Library] == "" && slices.Contains(before, v.Library) && !slices.Contains(after, v.Library) && !slices.Contains(told, v.Library) {
			told = append(told, v.Library)
			r.Notes = append(r.Notes, fmt.Sprintf("needs version %s of %s, which is no longer among its needed libraries: the loader stops there unless another library brings it", v.Name, v.Library))
		}
	}
	return nil
}

func (r *partsReport) runPath(p *parts, im *elfimage.Image, c *elfedit.Change, note func(string, any, any)) error {
	tag, list, err := im.RunPath()
	if err != nil {
		return err
	}
	before := runpath.Parse(list)
	after := slices.DeleteFunc(slices.Clone(p.RunPath(before)), func(entry string) bool { return entry == "" })
	want := elf.DT_RUNPATH
	switch {
	case len(after) == 0:
		want = elf.DT_NULL
	case p.ForceRPath:
		want = elf.DT_RPATH
	}
	if want == tag && after.String() == list || want == elf.DT_NULL && tag == elf.DT_NULL {
		return nil
	}
	c.RunPath = &elfedit.RunPath{Tag: want, List: after.String()}
	note("runpath", entriesOf(before), entriesOf(after))
	return nil
}
