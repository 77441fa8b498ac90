package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Action says what happened to a file.
type Action string

// The actions. In a dry run, Edited means that the file would be edited.
const (
	Edited    Action = "edited"
	Unchanged Action = "unchanged"
	Skipped   Action = "skipped" // left alone: no run path belongs in it
	Failed    Action = "failed"
)

// FileReport is one element of "files" in the JSON document.
type FileReport struct {
	Path string `json:"path"`
	// PathBytes is the path in base64, where it is not valid UTF-8 and Path shows a replacement.
	PathBytes []byte `json:"path_base64,omitempty"`
	Action    Action `json:"action"`
	Reason    string `json:"reason"` // why it was skipped or failed
	// Tag is DT_RUNPATH, DT_RPATH or "": what the file has afterwards.
	Tag    string   `json:"tag"`
	Before []string `json:"before"`
	After  []string `json:"after"`
	// Notes are what else there is to say, a sentence each.
	Notes []string `json:"notes,omitempty"`
	// Missing lists needed libraries that only a removed stub directory offered.
	Missing []string `json:"missing,omitempty"`
}

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

func (s *Summary) count(a Action) {
	switch a {
	case Edited:
		s.Edited++
	case Unchanged:
		s.Unchanged++
	case Skipped:
		s.Skipped++
	case Failed:
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

// Document writes {"version":1,"files":[…],"summary":…} as the files come, one
// file a line, so that a run over a large tree holds none of it in memory.
// A file is anything that marshals to an object.
type Document struct {
	w   *bufio.Writer
	n   int
	err error
}

// NewDocument begins a document.
func NewDocument(w io.Writer) *Document {
	d := &Document{w: bufio.NewWriterSize(w, 64<<10)}
	d.text(`{"version":1,"files":[`)
	return d
}

// File adds an element of "files".
func (d *Document) File(file any) {
	if d.n > 0 {
		d.text(",")
	}
	d.n++
	d.text("\n")
	d.value(file)
}

// Close adds the summary and ends the document.
func (d *Document) Close(summary any) error {
	d.text("\n],\"summary\":")
	d.value(summary)
	d.text("}\n")
	if d.err != nil {
		return d.err
	}
	return d.w.Flush()
}

func (d *Document) text(s string) {
	if _, err := d.w.WriteString(s); d.err == nil {
		d.err = err
	}
}

func (d *Document) value(v any) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); d.err == nil {
		d.err = err
	}
	d.text(strings.TrimSuffix(b.String(), "\n"))
}

// pathBytes returns what PathBytes is for a path.
func pathBytes(path string) []byte {
	if utf8.ValidString(path) {
		return nil
	}
	return []byte(path)
}
