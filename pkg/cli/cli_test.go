package cli

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"
)

func TestFlagsMayFollowTheArguments(t *testing.T) {
	flags := append([]cli.Flag{&cli.StringSliceFlag{KeepSpace: true, Name: "stub"}}, treeFlags()...)
	commands := []*cli.Command{{Name: "add", Flags: append([]cli.Flag{&cli.BoolFlag{Name: "first"}}, flags...)}}
	for _, c := range []struct{ in, want []string }{
		{[]string{"tool", "a", "b"}, []string{"tool", "--", "a", "b"}},
		{[]string{"tool", "a", "--json", "b", "-v"}, []string{"tool", "--json", "-v", "--", "a", "b"}},
		{[]string{"tool", "a", "--jobs", "2", "b"}, []string{"tool", "--jobs", "2", "--", "a", "b"}},
		{[]string{"tool", "a", "--jobs=2", "b"}, []string{"tool", "--jobs=2", "--", "a", "b"}},
		{[]string{"tool", "--stub", "-x", "a"}, []string{"tool", "--stub", "-x", "--", "a"}},
		{[]string{"tool", "a", "--", "--json", "--"}, []string{"tool", "--", "a", "--json", "--"}},
		{[]string{"tool", "-", "a"}, []string{"tool", "--", "-", "a"}},
		{[]string{"tool", "a", "--jobs"}, []string{"tool", "--jobs"}},
	} {
		if diff := cmp.Diff(c.want, flagsFirst(flags, nil, c.in)); diff != "" {
			t.Errorf("%q: %s", c.in, diff)
		}
	}
	for _, c := range []struct{ in, want []string }{
		{[]string{"runpath", "add", "/a", "f", "--first"}, []string{"runpath", "add", "--first", "--", "/a", "f"}},
		{[]string{"runpath", "--help", "add"}, []string{"runpath", "--help", "add", "--"}},
		{[]string{"runpath", "nothing", "-v"}, []string{"runpath", "nothing", "-v"}},
		{[]string{"runpath", "add", "-", "--generate-bash-completion"}, []string{"runpath", "add", "-", "--generate-bash-completion"}},
	} {
		if diff := cmp.Diff(c.want, flagsFirst(nil, commands, c.in)); diff != "" {
			t.Errorf("%q: %s", c.in, diff)
		}
	}
}

func TestDocumentIsOneJSONValueWhateverThePaths(t *testing.T) {
	var b bytes.Buffer
	d := newDocument(&b)
	for _, path := range []string{"a", "\xff\n", "<&>"} {
		d.file(&fileReport{Path: path, PathBytes: pathBytes(path), Action: actionSkipped, Before: []string{}, After: []string{}})
	}
	if err := d.close(&runSummary{Skipped: 3}); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Version int
		Files   []fileReport
		Summary runSummary
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, b.Bytes())
	}
	if got.Version != 1 || len(got.Files) != 3 || got.Summary.Skipped != 3 || string(got.Files[1].PathBytes) != "\xff\n" || got.Files[2].Path != "<&>" || got.Files[0].PathBytes != nil {
		t.Errorf("%s", b.Bytes())
	}
}

func TestPrintableIsOneLine(t *testing.T) {
	for in, want := range map[string]string{"/a b:$ORIGIN": "/a b:$ORIGIN", "ü": "ü", "a\nb": `"a\nb"`, "\x1b[31m": `"\x1b[31m"`, "a\u202eb": `"a\u202eb"`, "\xff": `"\xff"`} {
		if got := Printable(in); got != want {
			t.Errorf("%q is shown as %s", in, got)
		}
	}
}

func TestEntriesThatAreRefused(t *testing.T) {
	for _, dir := range []string{"", "lib", "./lib", "/a:/b", "/a\x00"} {
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
