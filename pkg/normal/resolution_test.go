package normal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cuda-runpath/pkg/resolution"
	"cuda-runpath/pkg/runpath"
)

func TestResolution(t *testing.T) {
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
	note := func(needed []string, list runpath.List) resolution.Note {
		return New(Settings{DriverLink: dir + "/driver"}).Resolution(File{Path: dir + "/lib/x"}, needed, list, nil)
	}
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
		n := note([]string{"libb.so", "liba.so", "libc.so", dir + "/lib/liba.so"}, strings.Split(full(list), ":"))
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
	if n := note([]string{"liba.so"}, nil); n != nil || n.Bytes() != nil {
		t.Error(n)
	}
	// What the note kept searches is searched further: the flags that said that it is the host's came with another command.
	kept := resolution.Note{{Name: "libother.so", Places: []resolution.Place{resolution.Place("?" + dir + "/lib")}}}
	n := New(Settings{}).Resolution(File{Path: dir + "/lib/x"}, []string{"liba.so"}, runpath.List{dir + "/lib", dir + "/other"}, kept)
	if got, want := string(n.Bytes()), "liba.so\x00?"+dir+"/lib:="+dir+"/other/liba.so\x00"; !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	// A directory that this user cannot search, unless he may search any.
	closed := filepath.Join(dir, "closed")
	if err := os.Mkdir(closed, 0); err != nil {
		t.Fatal(err)
	}
	want := resolution.Note{{Name: "liba.so", Places: []resolution.Place{resolution.Place("?" + closed)}}}
	if os.Getuid() == 0 {
		want = nil
	}
	if diff := cmp.Diff(want, note([]string{"liba.so"}, runpath.List{closed})); diff != "" {
		t.Error(diff)
	}
}
