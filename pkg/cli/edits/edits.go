// Package edits is what the commands that edit files have in common: their options, the walk, and what came of a file
// as a line and an element of the document.
package edits

import (
	"debug/elf"
	"fmt"
	"os/signal"
	"strings"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/flags"
	"cuda-runpath/pkg/cli/walk"
	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/edit"
	"cuda-runpath/pkg/normal"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/tree"
)

// Options reads the flags that say how a file is edited.
func Options(c *command.Line) edit.Options {
	return edit.Options{DryRun: c.Bool("dry-run"), Copy: c.Bool("copy"),
		Note: &edit.Note{Write: c.Bool("resolution-note")}}
}

// Settings reads the flags of the normal form.
func Settings(c *command.Line) (s normal.Settings, err error) {
	s = normal.Settings{
		DriverLink: c.String("driver-link"),
		DriverLast: c.String("position") == "last",
		Compat:     c.String("compat"),
		StubDirs:   flags.StubDirs(c),
		KeepEmpty:  c.Bool("keep-empty"),
		Dedupe:     c.Bool("dedupe"),

		CompatForStubs: c.Bool("compat-for-stubs"),
	}
	for _, link := range []string{s.DriverLink, driver.Link, driver.Link32} {
		if s.Compat != "" && runpath.Key(s.Compat) == runpath.Key(link) {
			return s, command.Misusef("--compat %s is the driver link", s.Compat)
		}
	}
	return s, nil
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

// Run edits the session's files: visit one of them, in several goroutines. Files that are not
// ELF files, as most files of most trees, are counted, and told of where that is asked for.
func Run[R walk.Reported](s *walk.Session, visit func(*tree.File) R, tell func(R), end func()) error {
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

// Report is what came of a file that was to be edited.
func Report(s *walk.Session, f *tree.File, r *edit.Result, before, after edit.State) walk.Report {
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
