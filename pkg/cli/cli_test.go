package cli

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"
)

func TestFlagsMayStandBehindTheArguments(t *testing.T) {
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

func TestDirectoryHoldsWhatTheLoaderWouldTake(t *testing.T) {
	dir := t.TempDir()
	for name, head := range map[string]string{
		"x86-64.so": "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9) + "\x03\x00\x3e\x00" + strings.Repeat("\x00", 44),
		"s390x.so":  "\x7fELF\x02\x02\x01" + strings.Repeat("\x00", 9) + "\x00\x03\x00\x16" + strings.Repeat("\x00", 44),
		"short.so":  "\x7fELF\x02\x01\x01",
		"text.so":   strings.Repeat("text", 5),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(head), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	os.Symlink("x86-64.so", filepath.Join(dir, "link.so"))
	os.Symlink("nothing", filepath.Join(dir, "dangling.so"))
	d := newDirectories()
	os.MkdirAll(filepath.Join(dir, "far", "away"), 0o755)
	os.Symlink("far/away", filepath.Join(dir, "near"))
	if d.has([]string{dir + "/near/.."}, "text.so") || !d.has([]string{dir + "/near/../.."}, "text.so") {
		t.Error(`".." after a symbolic link is not that link's directory`)
	}
	for _, c := range []struct {
		name       string
		has        bool
		x86, s390x bool
	}{
		{name: "x86-64.so", has: true, x86: true},
		{name: "link.so", has: true, x86: true},
		{name: "s390x.so", has: true, s390x: true},
		{name: "short.so", has: true},
		{name: "text.so", has: true},
		{name: "dangling.so"},
		{name: "nothing"},
	} {
		dirs := []string{filepath.Join(dir, "none"), dir}
		if got := d.has(dirs, c.name); got != c.has {
			t.Errorf("%s: there: %v", c.name, got)
		}
		if got := d.holds(dirs, c.name, elf.ELFCLASS64, elf.EM_X86_64); got != c.x86 {
			t.Errorf("%s: for x86-64: %v", c.name, got)
		}
		if got := d.holds(dirs, c.name, elf.ELFCLASS64, elf.EM_S390); got != c.s390x {
			t.Errorf("%s: for s390x: %v", c.name, got)
		}
		if d.holds(dirs, c.name, elf.ELFCLASS32, elf.EM_X86_64) || d.holds(dirs, c.name, elf.ELFCLASS64, elf.EM_AARCH64) {
			t.Errorf("%s: for x32 or aarch64", c.name)
		}
	}
}

func TestOriginExpandsWhatCanBeTold(t *testing.T) {
	t.Chdir("/")
	for entry, want := range map[string][]string{
		"/a":                 {"/a"},
		"$ORIGIN/../lib":     {"/opt/bin/../lib"},
		"${ORIGIN}":          {"/opt/bin"},
		"relative":           nil,
		"":                   nil,
		"/a/$PLATFORM":       nil,
		"/a/$LIB/$PLATFORM":  nil,
		"$ORIGIN/${LIB}/sub": {"/opt/bin/lib/sub", "/opt/bin/lib64/sub", "/opt/bin/lib32/sub"},
	} {
		got := newOrigin("opt/bin/file").expand(entry)
		if len(got) > 3 {
			got = got[:3] // the rest are Debian's names
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", entry, diff)
		}
	}
}
