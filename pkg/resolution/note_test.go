package resolution

import (
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
