package cli

import (
	"os/signal"
	"strings"
	"sync/atomic"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/edit"
	"cuda-runpath/pkg/tree"
)

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
	Action    edit.Action  `json:"action"`
	Reason    string       `json:"reason"`
	Changes   []partChange `json:"changes"`
	Notes     []string     `json:"notes,omitempty"`
}

// run edits the session's files. It returns command.ErrFailed where a file failed, after all
// others were done.
func runParts(p *edit.Parts, s *session) error {
	signal.Ignore(unix.SIGPIPE) // see editor.run
	p.Options = s.Options
	summary := runSummary{DryRun: s.DryRun}
	var notELF atomic.Int64
	run := sweep[*partsReport]{
		options: tree.Options{Leftover: s.leftover()},
		visit: func(f *tree.File) (*partsReport, bool) {
			if f.Err == nil && !f.ELF() && !s.JSON && !s.Verbose {
				notELF.Add(1)
				return nil, false
			}
			r := &partsReport{Path: f.Path, PathBytes: pathBytes(f.Path), Changes: []partChange{}}
			r.came(f, p.File(f))
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

// came notes what came of the file.
func (r *partsReport) came(f *tree.File, result *edit.PartsResult) {
	r.Action, r.Reason = result.Action, reasonOf(f, &result.Result)
	for _, c := range result.Changes {
		r.Changes = append(r.Changes, partChange(c))
	}
	r.Notes = append(result.Notes, leftLinks(result.LeftLinks)...)
}

func (r *partsReport) log(to *logrus.Logger) {
	level := logrus.DebugLevel
	switch r.Action {
	case edit.Failed:
		level = logrus.ErrorLevel
	case edit.Edited:
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
	case edit.Skipped:
		return "skipped: " + r.Reason
	case edit.Unchanged:
		return "unchanged"
	case edit.Edited:
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
