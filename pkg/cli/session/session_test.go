package session

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"

	"cuda-runpath/pkg/tree"
)

func TestDocumentIsOneJSONValueWhateverThePaths(t *testing.T) {
	var b bytes.Buffer
	d := (&Session{JSON: true, Stdout: &b, Log: NewLog(io.Discard, false, true)}).Telling()
	for _, path := range []string{"a", "\xff\n", "<&>"} {
		r := NewReport(path, nil)
		r.Action = tree.Skipped
		d.File(&r)
	}
	if err := d.End(&d.Sum, ""); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Version int
		Files   []struct {
			Report
			PathBytes []byte `json:"path_base64"`
		}
		Summary Summary
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, b.Bytes())
	}
	if got.Version != 2 || len(got.Files) != 3 || got.Summary.Skipped != 3 || string(got.Files[1].PathBytes) != "\xff\n" || got.Files[2].Path != "<&>" || got.Files[0].PathBytes != nil {
		t.Errorf("%s", b.Bytes())
	}
}
