package show

import (
	"debug/elf"
	"fmt"
	"io"
	"strings"

	"github.com/sirupsen/logrus"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/flags"
	"cuda-runpath/pkg/cli/normalform"
	"cuda-runpath/pkg/cli/session"
	"cuda-runpath/pkg/elfimage"
	"cuda-runpath/pkg/forwardcompat"
	"cuda-runpath/pkg/resolution"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/tree"
)

// shownFile is what show prints of a file, and an element of its JSON document's "files".
// It counts as skipped where an editor would skip it.
type shownFile struct {
	session.Report
	Class       string   `json:"class,omitempty"`
	Machine     string   `json:"machine,omitempty"`
	Shadowed    []string `json:"shadowed,omitempty"` // DT_RPATH beside a DT_RUNPATH
	Needed      []string `json:"needed"`
	Soname      string   `json:"soname,omitempty"`
	Interpreter string   `json:"interpreter,omitempty"`
	// ExecStack says whether the file asks for an executable stack; nil where it has no PT_GNU_STACK.
	ExecStack *bool `json:"execstack"`

	// Note is the resolution note, .note.nixos.ldcache as the loader reads it.
	Note resolution.Note `json:"note,omitempty"`
	// NoteError says why the loader reads no more of it.
	NoteError string `json:"note_error,omitempty"`

	// CompatNote is NVIDIA's note .note.cuda.fwd_compatibility; nil where the file has none.
	CompatNote *forwardcompat.Note `json:"compat_note,omitempty"`

	loadable bool // a program or a shared library
}

// Command returns the command show.
func Command() *command.Command {
	return &command.Command{
		Name:  "show",
		Also:  []string{"get", "list", "print", "print-rpath"},
		Usage: "show run path, needed libraries, soname, interpreter",
		Examples: `runpath show app/bin
runpath show --json app/lib/libx.so`,
		ArgsUsage:   "PATH...",
		Description: "If a tool would leave a file alone, it says why.",
		Flags:       []*command.Flag{command.JSONFlag, flags.Jobs, command.VerboseFlag("also show files that are not ELF")},
		Action:      session.With(func(s *session.Session, _ *command.Line) error { return Files(s, "") }),
	}
}

// Files prints what the loader reads of each ELF file; where only is interpreter,
// needed, soname, execstack or note, no more than that. Files that are not ELF are told of
// where the command line names them, or under --verbose.
func Files(s *session.Session, only string) error {
	run := session.Sweep[*shownFile]{
		Options: tree.Options{FollowArguments: true},
		Visit: func(f *tree.File) (*shownFile, bool) {
			if f.Err == nil && (f.SameAs != "" || !f.ELF() && !s.Verbose) && !s.Named(f.Path) {
				return nil, false
			}
			r := &shownFile{Report: session.NewReport(f.Path, nil), Needed: []string{}}
			r.Fail(r.read(f))
			return r, true
		},
		Tell: func(r *shownFile) {
			if r.Action != tree.Failed && !s.JSON {
				r.print(s.Stdout, only)
			}
		},
	}
	return run.Run(s)
}

// skip notes why an editor would skip the file, which the log does not repeat.
func (r *shownFile) skip(reason string) {
	if reason != "" {
		r.Action, r.Reason, r.Level = tree.Skipped, reason, logrus.TraceLevel
	}
}

func (r *shownFile) read(f *tree.File) error {
	if f.Err != nil {
		return f.Err
	}
	if !f.ELF() {
		r.skip(string(elfimage.NotELF))
		return nil
	}
	im, err := elfimage.ParseHead(f, f.Size(), f.Head())
	if err != nil {
		return err
	}
	r.Class, r.Machine = im.Class.String(), im.Machine.String()
	r.skip(string(im.SkipReason()))
	r.loadable = im.Loadable()
	if stack := im.Stack(); stack != nil {
		executable := stack.Flags&elf.PF_X != 0
		r.ExecStack = &executable
	}
	if im.Dynamic == nil {
		return nil
	}
	tag, list, err := im.RunPath()
	if err != nil {
		return err
	}
	r.Tag, r.Before = normalform.TagName(tag), session.EntriesOf(runpath.Parse(list))
	r.After = r.Before
	shadowed, both, err := im.Shadowed()
	if err != nil {
		return err
	}
	if both {
		r.Shadowed = session.EntriesOf(runpath.Parse(shadowed))
	}
	needed, err := im.Needed()
	if err != nil {
		return err
	}
	r.Needed = session.EntriesOf(needed)
	if r.Soname, err = im.Soname(); err != nil {
		return err
	}
	descriptors, err := im.NoteDescriptors(forwardcompat.NoteOwner, forwardcompat.NoteType)
	if err != nil {
		return err
	}
	r.CompatNote = forwardcompat.FirstNote(descriptors)
	note, err := im.ResolutionCache()
	if err != nil {
		return err
	}
	if note != nil {
		if r.Note, err = resolution.Parse([]byte(note.Description)); err != nil {
			r.NoteError = err.Error()
		}
	}
	r.Interpreter, err = im.Interpreter()
	return err
}

// print writes the file's path and below it one indented line for each thing known.
func (r *shownFile) print(w io.Writer, only string) {
	var b strings.Builder
	line := func(what, value string) {
		if only == "" || only == what {
			fmt.Fprintf(&b, "  %-12s %s\n", what, command.Printable(value))
		}
	}
	b.WriteString(command.Printable(r.Path) + "\n")
	for _, e := range r.Before {
		if e == "" {
			e = "(empty: the working directory)"
		}
		line(r.Tag, e)
	}
	if r.Tag != "" && len(r.Before) == 0 {
		line(r.Tag, "(empty)")
	}
	if r.Shadowed != nil {
		line("ignored", "DT_RPATH "+strings.Join(r.Shadowed, ":"))
	}
	for _, n := range r.Needed {
		line("needed", n)
	}
	if r.Soname != "" {
		line("soname", r.Soname)
	}
	if r.Interpreter != "" {
		line("interpreter", r.Interpreter)
	}
	for _, e := range r.Note {
		places := make([]string, len(e.Places))
		for i, p := range e.Places {
			places[i] = string(p)
		}
		line("note", e.Name+" "+strings.Join(places, ":"))
	}
	switch {
	case r.NoteError != "":
		line("note", "("+r.NoteError+")")
	case r.Note == nil && only == "note" && r.Reason == "":
		line("note", "(none)")
	}
	if r.CompatNote != nil {
		line("compat note", r.CompatNote.String())
	}
	switch {
	case r.ExecStack != nil && *r.ExecStack:
		line("execstack", "executable")
	case r.ExecStack != nil && only != "": // as nearly all files are
		line("execstack", "not executable")
	case only != "" && r.loadable:
		line("execstack", "(none: as the machine's ABI has it)")
	}
	if r.Reason != "" {
		fmt.Fprintf(&b, "  %-12s %s\n", "skipped", command.Printable(r.Reason))
	}
	io.WriteString(w, b.String())
}
