package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"

	"cuda-runpath/pkg/tree"
)

func TestDocumentIsOneJSONValueWhateverThePaths(t *testing.T) {
	var b bytes.Buffer
	d := (&session{JSON: true, Stdout: &b, Log: newLog(io.Discard, false, true)}).telling()
	for _, path := range []string{"a", "\xff\n", "<&>"} {
		r := newReport(path, nil)
		r.Action = tree.Skipped
		d.file(&r)
	}
	if err := d.end(&d.sum, ""); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Version int
		Files   []struct {
			fileReport
			PathBytes []byte `json:"path_base64"`
		}
		Summary runSummary
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, b.Bytes())
	}
	if got.Version != 1 || len(got.Files) != 3 || got.Summary.Skipped != 3 || string(got.Files[1].PathBytes) != "\xff\n" || got.Files[2].Path != "<&>" || got.Files[0].PathBytes != nil {
		t.Errorf("%s", b.Bytes())
	}
}

func TestEntriesThatAreRefused(t *testing.T) {
	for _, dir := range []string{"", "lib", "./lib", "/a:/b"} {
		if checkEntry(dir) == nil {
			t.Errorf("%q is taken", dir)
		}
	}
	for _, dir := range []string{"/a", "$ORIGIN/../lib", "${ORIGIN}"} {
		if err := checkEntry(dir); err != nil {
			t.Errorf("%q: %v", dir, err)
		}
	}
}
