package patchelf

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func noFile(string) ([]byte, error) { return nil, os.ErrNotExist }

func ptr(s string) *string { return &s }

// Each row is what patchelf 0.19 makes of a command line.
func TestParse(t *testing.T) {
	read := func(path string) ([]byte, error) {
		if path != "list" {
			return nil, os.ErrNotExist
		}
		return []byte("/from/a/file\n"), nil
	}
	for _, test := range []struct {
		line string
		want Command
	}{
		{"f", Command{Files: []string{"f"}}},
		{"--print-rpath a b", Command{Files: []string{"a", "b"}, PrintRunPath: true}},
		{"a --print-rpath b", Command{Files: []string{"a", "b"}, PrintRunPath: true}},
		{"--no-such-option f", Command{Files: []string{"--no-such-option", "f"}}},
		{"--set-rpath=/x f", Command{Files: []string{"--set-rpath=/x", "f"}}},
		{"-- f", Command{Files: []string{"--", "f"}}},
		{"--set-rpath --print-rpath f", Command{Files: []string{"f"}, SetRunPath: true, RunPath: "--print-rpath"}},
		{"--set-rpath a --set-rpath b f", Command{Files: []string{"f"}, SetRunPath: true, RunPath: "b"}},
		{"--add-rpath @list f", Command{Files: []string{"f"}, AddRunPath: true, RunPath: "/from/a/file\n"}},
		{"--interpreter x f", Command{Files: []string{"f"}, Interpreter: "x"}},
		{"--set-soname a --set-soname b f", Command{Files: []string{"f"}, SetSoname: ptr("b")}},
		{"--add-needed z --add-needed a --add-needed z f", Command{Files: []string{"f"}, AddNeeded: []string{"a", "z"}}},
		{"--replace-needed a b --replace-needed a c f", Command{Files: []string{"f"}, ReplaceNeeded: map[string]string{"a": "c"}}},
		{"--replace-needed @list b f", Command{Files: []string{"f"}, ReplaceNeeded: map[string]string{"@list": "b"}}},
		{"--shrink-rpath --allowed-rpath-prefixes /a:/b: f", Command{Files: []string{"f"}, ShrinkRunPath: true, AllowedPrefixes: []string{"/a", "/b"}}},
		{"--page-size 4096x --no-sort --no-clobber-old-sections f", Command{Files: []string{"f"}}},
		{"--output o f", Command{Files: []string{"f"}, Output: "o", Copy: true}},
		{"--help --set-rpath", Command{Help: true}},
		{"--version --no-such f", Command{Version: true}},
	} {
		got, err := Parse(strings.Fields(test.line), read)
		if err != nil {
			t.Errorf("%s: %v", test.line, err)
		} else if diff := cmp.Diff(&test.want, got); diff != "" {
			t.Errorf("%s: %s", test.line, diff)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"":                              "missing filename",
		"--print-rpath":                 "missing filename",
		"f --set-rpath":                 "missing argument",
		"f --replace-needed a":          "missing argument(s)",
		"f --page-size 0":               "invalid argument to --page-size",
		"f --page-size -4096":           "invalid argument to --page-size",
		"f --page-size x":               "invalid argument to --page-size",
		"--output o f g":                "single file",
		"--set-rpath a --add-rpath b f": "exclude each other",
		"--set-rpath @nothing f":        "not exist",
		"--build-resolution-cache --force-rpath f": "--build-resolution-cache cannot be combined with --force-rpath",
		"--rename-dynamic-symbols m f":             "--rename-dynamic-symbols is not supported",
		"--rename-dynamic-symbols":                 "missing argument",
		"--set-soname a\x00b --help f":             "NUL",
		"--set-rpath a --add-rpath --help":         "missing filename",
	} {
		_, err := Parse(strings.Fields(line), noFile)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, not %q", line, err, want)
		}
	}
}

func TestShrink(t *testing.T) {
	const us, them = 62, 183
	files := map[string]uint16{"/a/libx": us, "/b/libx": us, "/b/liby": us, "/foreign/liby": them, "/libx": us}
	for _, test := range []struct{ list, needed, prefixes, want string }{
		{"/a:/b", "libx liby", "", "/a:/b"},
		{"/a:/b", "libx", "", "/a"}, // the first that holds it
		{"/b:/a", "libx liby", "", "/b"},
		{"/foreign:/b", "liby", "", "/b"}, // of another machine
		{"/none:$ORIGIN:relative:/a", "libx", "", "$ORIGIN:relative:/a"},
		{"/a:/b", "libx liby", "/b", "/b"},
		{"$ORIGIN:/a", "libx", "/nix", "$ORIGIN"}, // prefixes concern absolute entries
		{"/a:/b", "libx liby", "/:/x", "/a:/b"},
		{"/a", "", "", ""},
		{"/none::/none", "libx", "", ""}, // an empty entry is looked up as the root is, and joins to nothing
		{"/a:/a", "libx", "", "/a"},
		{"", "libx", "", ""},
	} {
		got, err := shrink(test.list, strings.Fields(test.needed), us, split(test.prefixes), func(path string) (uint16, bool, error) {
			m, ok := files[path]
			return m, ok, nil
		})
		if err != nil || got != test.want {
			t.Errorf("%s, needing %s, prefixes %q: %q (%v), not %q", test.list, test.needed, test.prefixes, got, err, test.want)
		}
	}
	if _, err := shrink("/a", []string{"libx"}, us, nil, func(string) (uint16, bool, error) { return 0, false, os.ErrPermission }); !errors.Is(err, os.ErrPermission) {
		t.Errorf("a directory that may not be read: %v", err)
	}
}

func TestOSABI(t *testing.T) {
	for name, want := range map[string]byte{"linux": 3, "lInUx": 3, " gnu\n": 3, "System V": 0, "sysv": 0, "GNU Hurd": 4, "hurd": 4, "openvms": 13} {
		if got, err := osABI(name); err != nil || got != want {
			t.Errorf("%q: %d (%v), not %d", name, got, err, want)
		}
	}
	if _, err := osABI("plan9"); err == nil {
		t.Error("plan9 is none that patchelf knows")
	}
	for _, o := range osABIs {
		if got, err := osABI(osABIName(o.abi)); err != nil || got != byte(o.abi) {
			t.Errorf("%v is shown as a name that is not understood: %v", o.abi, err)
		}
	}
	if got := osABIName(200); got != "0xC8" {
		t.Error(got)
	}
}
