package session

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"

	"github.com/sirupsen/logrus"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/remedy"
	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/tree"
)

// Report begins each element of "files", whatever the command; schema/file.json says what
// its fields mean.
type Report struct {
	Path   string      `json:"path"`
	Action tree.Action `json:"action"`
	Reason string      `json:"reason,omitempty"` // why it was skipped or failed
	Tag    string      `json:"tag,omitempty"`    // DT_RUNPATH or DT_RPATH: what the file has afterwards
	// The entries of the run path; nil, and absent, of a command that does not look at it.
	Before []string `json:"before,omitzero"`
	After  []string `json:"after,omitzero"`
	Notes  []string `json:"notes,omitempty"` // what else there is to say, a sentence each
	// What became of the resolution note, in the words of [edit.NoteResult].
	ResolutionNote string `json:"resolution_note,omitempty"`

	// What the log says of the file, and of what weight that is; without a line, what its
	// action says.
	Line  string       `json:"-"`
	Level logrus.Level `json:"-"`
	// Left is how many hard links to the file outside the paths lead to the old one.
	Left int      `json:"-"`
	Info []string `json:"-"`
	Warn []string `json:"-"`
}

// NewReport returns the report of a file of which nothing is known but its run path, and
// often not even that.
func NewReport(path string, entries runpath.List) Report {
	return Report{Path: path, Action: tree.Unchanged, Before: EntriesOf(entries), After: EntriesOf(entries)}
}

// Fail notes that an error kept a file from being examined.
func (r *Report) Fail(err error) {
	if err != nil {
		r.Action, r.Reason, r.Line = tree.Failed, err.Error(), ""
	}
}

// common makes a [Reported] of everything that embeds a Report.
func (r *Report) common() *Report { return r }

// Reported is what there is to say of a file: an element of "files".
type Reported interface{ common() *Report }

// log writes what the log says of the file.
func (r *Report) log(to *logrus.Logger) {
	line, level := r.Line, r.Level
	if level == 0 {
		level = map[tree.Action]logrus.Level{tree.Failed: logrus.ErrorLevel, tree.Edited: logrus.InfoLevel}[r.Action]
	}
	if level == 0 {
		level = logrus.DebugLevel
	}
	switch {
	case line != "":
	case r.Action == tree.Failed:
		line = r.Reason
	case r.Action == tree.Skipped:
		line = "skipped: " + r.Reason
	}
	said := line != "" && to.IsLevelEnabled(level)
	if !said && len(r.Info)+len(r.Warn) == 0 { // as of most files; an entry is 4 % of what such a one costs
		return
	}
	entry := to.WithField("path", r.Path)
	if said {
		entry.Log(level, line)
	}
	for _, text := range r.Info {
		entry.Info(text)
	}
	for _, text := range r.Warn {
		entry.Warn(text)
	}
}

// EntriesOf never returns nil: JSON shows an empty run path as [].
func EntriesOf(l []string) []string { return append([]string{}, l...) }

// Summary counts the files of a run by action.
type Summary struct {
	Edited    int  `json:"edited"`
	Unchanged int  `json:"unchanged"`
	Skipped   int  `json:"skipped"`
	Failed    int  `json:"failed"`
	DryRun    bool `json:"dry_run,omitempty"`
	// Stopped says how far a run came that was interrupted.
	Stopped string `json:"stopped,omitempty"`
}

func (s *Summary) count(a tree.Action) {
	switch a {
	case tree.Edited:
		s.Edited++
	case tree.Unchanged:
		s.Unchanged++
	case tree.Skipped:
		s.Skipped++
	case tree.Failed:
		s.Failed++
	}
}

// String is the line that ends a run: "3 edited, 17 unchanged, 2 skipped, 0 failed".
func (s *Summary) String() string {
	edited := "edited"
	if s.DryRun {
		edited = "would be edited"
	}
	return fmt.Sprintf("%d %s, %d unchanged, %d skipped, %d failed", s.Edited, edited, s.Unchanged, s.Skipped, s.Failed)
}

// telling is what a run says: of each file a line in the log and an element of the JSON
// document, and at the end a summary.
type telling struct {
	*Session
	Sum Summary
	// The JSON document {"version":2,"files":[…],"summary":…}, which is written as the files come, one file a
	// line, so that a run over a large tree holds none of it in memory: nil where stdout is for text; what is
	// before the next file; and what could not be put into it.
	doc *bufio.Writer
	sep string
	err error
	// Of edits, how many there are with one line in the log, and the paths of those that are not
	// listed for that; in lines, the order.
	edits map[string]*alike
	lines []string
	// How many files have names that lead to the old ones, and how many those are.
	parted, left int
}

type alike struct {
	n    int
	more []string
}

// listed is how many edits with one line are listed without --verbose, and how many different
// lines there are before all others are counted as one.
const listed, different = 20, 200

// OtherEdits is the line of edits that are counted, and not listed without --verbose.
const OtherEdits = "other edits"

// OrStopped returns what a run returned, and where that ended before there was a document, prints it all the same: no
// files, and why in the summary.
func (s *Session) OrStopped(err error, summary func(why string) any) error {
	if misuse := command.Misuse(""); err == nil || !s.JSON || s.told || errors.As(err, &misuse) {
		return err
	}
	t := s.Telling()
	return cmp.Or(t.End(summary(err.Error()), ""), err)
}

func (s *Session) Telling() *telling {
	t := &telling{Session: s, Sum: Summary{DryRun: s.DryRun}, edits: map[string]*alike{}}
	if s.JSON {
		s.told = true
		t.doc = bufio.NewWriterSize(s.Stdout, 64<<10)
		t.doc.WriteString(`{"version":2,"files":[`)
	}
	return t
}

// File logs one file, and writes its element of the document.
func (t *telling) File(r Reported) {
	f := r.common()
	t.Sum.count(f.Action)
	if f.Action == tree.Skipped && f.Level == 0 && t.Singled(f.Path) {
		f.Level = logrus.InfoLevel
	}
	if f.Action == tree.Edited && !t.Verbose && !t.Quiet {
		t.gather(f)
	}
	if f.Left > 0 {
		t.parted, t.left = t.parted+1, t.left+f.Left
	}
	f.log(t.Log)
	if t.doc != nil {
		t.add(t.sep+"\n", r)
		t.sep = ","
	}
}

// gather takes the line of an edit that is like many others, to be counted at the end.
func (t *telling) gather(f *Report) {
	g := t.edits[f.Line]
	if g == nil && len(t.edits) >= different {
		f.Line = OtherEdits
		g = t.edits[f.Line]
	}
	if g == nil {
		g = &alike{}
		t.edits[f.Line], t.lines = g, append(t.lines, f.Line)
	}
	if g.n++; g.n > listed || f.Line == OtherEdits {
		g.more = append(g.more, f.Path)
		f.Line = ""
	}
}

// Unreached says which libraries are missing for modules of Python's that no import of their packages reaches.
func Unreached(names []string) string {
	return Lacking(names, "modules that no import of their packages reaches")
}

// FewLacking is how many missing libraries are on a screen each by itself; of more, [Lacking] says the names.
const FewLacking = 3

// Lacking says in a line which libraries are missing, and for what.
func Lacking(names []string, of string) string {
	return fmt.Sprintf("%s for %s: %s (-v names these, and what helps)",
		Count(len(names), "library is missing", "libraries are missing"), of, command.Printable(command.Few(names, 4)))
}

// Stop says of the edits that were not listed how many they were, and then why not all is done.
func (t *telling) Stop(err error) {
	for _, line := range t.lines {
		if more := t.edits[line].more; len(more) > 0 {
			t.Log.WithField("path", remedy.Common(more)).Infof("%s: %s (-v lists them)",
				Count(len(more), "more file", "more files"), line)
		}
	}
	if t.left > 0 {
		t.Log.Infof("%s to the old contents of %s, as from a cache of uv's or pnpm's",
			Count(t.left, "hard link from outside the paths leads", "hard links from outside the paths lead"),
			Count(t.parted, "file", "files"))
	}
	if err != nil {
		t.Sum.Stopped = err.Error()
		t.Log.Error(err)
	}
}

// End writes the summary, or the line that ends the text on stdout where that is not "". It returns
// command.ErrFailed where a file failed or not all is done. [command.Run] knows what could not be written.
func (t *telling) End(summary any, line string) error {
	if t.doc != nil {
		t.add("\n],\"summary\":", summary)
		t.doc.WriteString("}\n")
		t.doc.Flush()
	} else if line != "" && !t.Quiet {
		t.Say("%s", line)
	}
	if t.err != nil {
		return t.err
	}
	if t.Sum.Failed > 0 || t.Sum.Stopped != "" {
		return command.ErrFailed
	}
	return nil
}

func (t *telling) add(before string, v any) {
	b, err := command.JSON(v, "")
	t.err = cmp.Or(t.err, err)
	t.doc.WriteString(before)
	t.doc.Write(b)
}

// Say prints a line to stdout, where that takes text. [command.Run] knows what could not be
// written.
func (s *Session) Say(format string, args ...any) {
	if !s.JSON && !s.Document {
		fmt.Fprintf(s.Stdout, format+"\n", args...)
	}
}

func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
