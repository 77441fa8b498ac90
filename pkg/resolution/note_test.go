package resolution

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		desc string
		want Note
		err  error
	}{
		{"liba.so\x00=/a/liba.so:?/b\x00libb.so\x00?$ORIGIN\x00\x00", Note{{"liba.so", []Place{"=/a/liba.so", "?/b"}}, {"libb.so", []Place{"?$ORIGIN"}}}, nil},
		{"a\x00?\x00\x00", Note{{"a", []Place{"?"}}}, nil},
		{"a\x00::=/x\x00\x00", Note{{"a", []Place{"", "", "=/x"}}}, nil},
		{"a\x00=/x\x00\x00after\x00=/end\x00\x00", Note{{"a", []Place{"=/x"}}}, nil},
		{"a\x00=/x\x00b\x00\x00", Note{{"a", []Place{"=/x"}}}, errMalformed},
		{"a\x00\x00", nil, errMalformed},
		{"\x00=/x\x00\x00", nil, nil},
		{"", nil, errUnread},
		{"\x00\x00", nil, errUnread},
		{"a\x00=/x\x00", nil, errUnread},
		{"a\x00=/x\x00\x00b", nil, errUnread},
	} {
		got, err := Parse([]byte(c.desc))
		if diff := cmp.Diff(c.want, got); err != c.err || diff != "" {
			t.Errorf("%q: %v: %s", c.desc, err, diff)
		}
	}
}

// A description of any bytes takes memory by its length, and what is read of it is written
// as it was.
func TestParseAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		desc := rapid.SliceOf(rapid.SampledFrom([]byte("\x00\x00a:=?/"))).Draw(t, "desc")
		n, err := Parse(desc)
		if err == nil && n != nil && !strings.HasPrefix(string(desc), string(n.Bytes())) {
			t.Errorf("%q is %v", desc, n)
		}
		if again, err := Parse(n.Bytes()); n != nil && (err != nil || cmp.Diff(n, again) != "") {
			t.Errorf("%v is read as %v, %v", n, again, err)
		}
	})
}

func TestLookup(t *testing.T) {
	n := Note{{"a", []Place{"=/1"}}, {"a", []Place{"=/2"}}}
	if p, ok := n.Lookup("a"); !ok || p[0] != "=/1" {
		t.Error(p)
	}
	if _, ok := n.Lookup("b"); ok {
		t.Error("a name that is not there")
	}
}

func TestBuild(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"lib/liba.so", "lib/libb.so", "hw/liba.so", "hw/glibc-hwcaps/x", "other/liba.so", "driver/liba.so", "file"} {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "other/libb.so")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for list, want := range map[string]string{
		"D/lib":                  "liba.so =D/lib/liba.so, libb.so =D/lib/libb.so",
		"D/other:D/lib/":         "liba.so =D/other/liba.so:=D/lib//liba.so, libb.so =D/lib//libb.so",
		"D/none:D/lib":           "liba.so ?D/none:=D/lib/liba.so, libb.so ?D/none:=D/lib/libb.so, libc.so ?D/none",
		"D/file":                 "liba.so ?D/file, libb.so ?D/file, libc.so ?D/file",
		"D/hw:D/other":           "liba.so ?D/hw:=D/other/liba.so, libb.so ?D/hw, libc.so ?D/hw",
		"$ORIGIN:D/other":        "liba.so ?$ORIGIN:=D/other/liba.so, libb.so ?$ORIGIN, libc.so ?$ORIGIN",
		"D/${LIB}x:D/other":      "liba.so ?D/${LIB}x:=D/other/liba.so, libb.so ?D/${LIB}x, libc.so ?D/${LIB}x",
		"lib:D/other":            "liba.so ?lib:=D/other/liba.so, libb.so ?lib, libc.so ?lib",
		":D/other:":              "liba.so ?:=D/other/liba.so:?, libb.so ?:?, libc.so ?:?",
		"D/driver:D/lib":         "liba.so ?D/driver:=D/lib/liba.so, libb.so ?D/driver:=D/lib/libb.so, libc.so ?D/driver",
		"D/lib/..:D/lib/../file": "liba.so ?D/lib/../file, libb.so ?D/lib/../file, libc.so ?D/lib/../file",
		"D/lib/nothing/..":       "liba.so ?D/lib/nothing/.., libb.so ?D/lib/nothing/.., libc.so ?D/lib/nothing/..",
		"D/empty":                "liba.so ?D/empty, libb.so ?D/empty, libc.so ?D/empty",
	} {
		full := func(s string) string { return strings.ReplaceAll(s, "D/", dir+"/") }
		n := new(Files).Build([]string{"libb.so", "liba.so", "libc.so", dir + "/lib/liba.so"}, strings.Split(full(list), ":"),
			func(entry string) bool { return entry == dir+"/driver" })
		var got []string
		for _, e := range n {
			var places []string
			for _, p := range e.Places {
				places = append(places, string(p))
			}
			got = append(got, e.Name+" "+strings.Join(places, ":"))
		}
		if diff := cmp.Diff(full(want), strings.Join(got, ", ")); diff != "" {
			t.Errorf("%s: %s", list, diff)
		}
	}
	if n := new(Files).Build([]string{"liba.so"}, nil, nil); n != nil || n.Bytes() != nil {
		t.Error(n)
	}
	// A directory that this user cannot search, unless he may search any.
	closed := filepath.Join(dir, "closed")
	if err := os.Mkdir(closed, 0); err != nil {
		t.Fatal(err)
	}
	want := Note{{"liba.so", []Place{Place("?" + closed)}}}
	if os.Getuid() == 0 {
		want = nil
	}
	if diff := cmp.Diff(want, new(Files).Build([]string{"liba.so"}, []string{closed}, func(string) bool { return false })); diff != "" {
		t.Error(diff)
	}
}
