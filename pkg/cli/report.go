package cli

import (
	"bufio"
	"io"
	"strconv"
	"unicode/utf8"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/edit"
)

// fileReport is one element of "files" in the JSON document.
type fileReport struct {
	Path string `json:"path"`
	// PathBytes is the path in base64, where it is not valid UTF-8 and Path shows a replacement.
	PathBytes []byte      `json:"path_base64,omitempty"`
	Action    edit.Action `json:"action"`
	Reason    string      `json:"reason"` // why it was skipped or failed
	// Tag is DT_RUNPATH, DT_RPATH or "": what the file has afterwards.
	Tag    string   `json:"tag"`
	Before []string `json:"before"`
	After  []string `json:"after"`
	// Notes are what else there is to say, a sentence each.
	Notes []string `json:"notes,omitempty"`
	// Missing lists needed libraries that only a removed stub directory offered.
	Missing []string `json:"missing,omitempty"`
}

// runSummary counts the files of a run by action.
type runSummary struct {
	Edited    int  `json:"edited"`
	Unchanged int  `json:"unchanged"`
	Skipped   int  `json:"skipped"`
	Failed    int  `json:"failed"`
	DryRun    bool `json:"dry_run,omitempty"`
	// Stopped says how far a run came that was interrupted.
	Stopped string `json:"stopped,omitempty"`
}

func (s *runSummary) count(a edit.Action) {
	switch a {
	case edit.Edited:
		s.Edited++
	case edit.Unchanged:
		s.Unchanged++
	case edit.Skipped:
		s.Skipped++
	case edit.Failed:
		s.Failed++
	}
}

// String is the line that ends a run: "3 edited, 17 unchanged, 2 skipped, 0 failed".
func (s *runSummary) String() string {
	edited := "edited"
	if s.DryRun {
		edited = "would be edited"
	}
	return strconv.Itoa(s.Edited) + " " + edited + ", " + strconv.Itoa(s.Unchanged) + " unchanged, " +
		strconv.Itoa(s.Skipped) + " skipped, " + strconv.Itoa(s.Failed) + " failed"
}

// jsonDocument writes {"version":1,"files":[…],"summary":…} as the files come, one
// file a line, so that a run over a large tree holds none of it in memory.
// A file is anything that marshals to an object.
type jsonDocument struct {
	w   *bufio.Writer
	n   int
	err error
}

// newDocument begins a document.
func newDocument(w io.Writer) *jsonDocument {
	d := &jsonDocument{w: bufio.NewWriterSize(w, 64<<10)}
	d.text(`{"version":1,"files":[`)
	return d
}

// file adds an element of "files".
func (d *jsonDocument) file(file any) {
	if d.n > 0 {
		d.text(",")
	}
	d.n++
	d.text("\n")
	d.value(file)
}

// close adds the summary and ends the document.
func (d *jsonDocument) close(summary any) error {
	d.text("\n],\"summary\":")
	d.value(summary)
	d.text("}\n")
	if d.err != nil {
		return d.err
	}
	return d.w.Flush()
}

func (d *jsonDocument) text(s string) {
	if _, err := d.w.WriteString(s); d.err == nil {
		d.err = err
	}
}

func (d *jsonDocument) value(v any) {
	b, err := command.JSON(v, "")
	if d.err == nil {
		d.err = err
	}
	d.text(string(b))
}

// pathBytes returns what PathBytes is for a path.
func pathBytes(path string) []byte {
	if utf8.ValidString(path) {
		return nil
	}
	return []byte(path)
}
