package command

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFlagsMayFollowTheArguments(t *testing.T) {
	flags := []*Flag{{Name: "stub", Kind: List}, {Name: "json"}, {Name: "jobs", Kind: Int}, {Name: "verbose", Aliases: []string{"v"}}}
	commands := []*Command{{Name: "add", Flags: append([]*Flag{{Name: "first"}}, flags...)}}
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
	} {
		if diff := cmp.Diff(c.want, flagsFirst(nil, commands, c.in)); diff != "" {
			t.Errorf("%q: %s", c.in, diff)
		}
	}
}

func TestPrintableIsOneLine(t *testing.T) {
	for in, want := range map[string]string{"/a b:$ORIGIN": "/a b:$ORIGIN", "ü": "ü", "a\nb": `"a\nb"`, "\x1b[31m": `"\x1b[31m"`, "a\u202eb": `"a\u202eb"`, "\xff": `"\xff"`} {
		if got := Printable(in); got != want {
			t.Errorf("%q is shown as %s", in, got)
		}
	}
}
