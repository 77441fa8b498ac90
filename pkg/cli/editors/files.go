package editors

import (
	"os/signal"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/normalform"
	"cuda-runpath/pkg/cli/session"
	"cuda-runpath/pkg/edit"
	"cuda-runpath/pkg/edit/runpaths"
	"cuda-runpath/pkg/tree"
)

// Options reads the flags that say how a file is edited.
func Options(c *command.Line) edit.Options {
	return edit.Options{DryRun: c.Bool("dry-run"), InPlace: c.Bool("in-place"),
		Note: &edit.Note{Write: c.Bool("resolution-note")}}
}

// Tag reads the flags that say which tag a run path gets.
func Tag(c *command.Line) runpaths.Tag {
	return runpaths.Tag{ForceRPath: c.Bool("force-rpath"), ForceRunPath: c.Bool("force-runpath")}
}

// Run edits the session's files: visit one of them, in several goroutines. Files that are not
// ELF files, as most files of most trees, are counted, and told of where that is asked for.
func Run[R session.Reported](s *session.Session, visit func(*tree.File) R, tell func(R), end func()) error {
	// Should nobody read what we say any more, finish the files all the same, and
	// let the exit status tell. The signal would end us between two of them.
	signal.Ignore(unix.SIGPIPE)
	return (&session.Sweep[R]{
		Options: tree.Options{Leftover: s.Leftover(), Refuse: s.Refuse},
		Visit: func(f *tree.File) (r R, keep bool) {
			if f.Err == nil && !f.ELF() && !s.JSON && !s.Verbose && !s.Singled(f.Path) {
				return r, false
			}
			return visit(f), true
		},
		Tell: tell,
		End: func(sum *session.Summary, dropped int) (any, string) {
			sum.Skipped += dropped
			end()
			return sum, sum.String()
		},
	}).Run(s)
}

// Report is what came of a file that was to be edited.
func Report(s *session.Session, f *tree.File, r *edit.Result, before, after edit.State) session.Report {
	o := session.Report{Path: f.Path, Action: r.Action, Reason: r.Reason,
		Tag: normalform.TagName(after.Tag), Before: session.EntriesOf(before.List), After: session.EntriesOf(after.List),
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
	if r.NoNote != nil {
		o.Warn = append(o.Warn, r.NoNote.Error())
	}
	if r.Action == tree.Edited {
		o.Left = r.LeftLinks
	}
	return o
}
