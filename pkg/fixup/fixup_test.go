package fixup

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The answers are those of Python 3.11's fnmatch.fnmatchcase.
func TestPatternsAreFnmatchs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "libfoo.so.1", true},
		{"*", "", true},
		{"libfoo.so.1", "libfoo.so.1", true},
		{"libfoo.so.1", "libfooxso.1", false},
		{"libfoo.so.?", "libfoo.so.1", true},
		{"libfoo.so.?", "libfoo.so.12", false},
		{"libfoo.so", "libfoo.so.1", false},
		{"lib[ab].so", "libb.so", true},
		{"lib[!ab].so", "libb.so", false},
		{"lib[!ab].so", "libc.so", true},
		{"lib[a-c]x", "libbx", true},
		{"lib[^a]", "liba", true}, // "^" is a letter like others
		{"lib[^a]", "libb", false},
		{"[]]", "]", true},
		{"[!]]", "]", false},
		{"[!]]", "x", true},
		{"[", "[", true},
		{"[abc", "[abc", true},
		{`a\*`, `a\b`, true},
		{`a\*`, "a*", false},
		{".*", ".hidden", true},
		{"*", ".hidden", true},
		{"a*b", "a/b", true},
		{"a+b", "a+b", true},
		{"a*", "a\nb", true},
		{"libé.so.1", "libé.so.1", true},
		{"lib?.so.1", "libé.so.1", true},
		{"lib[é].so.1", "libé.so.1", true},
		{"lib[!é].so.1", "libé.so.1", false},
		{"lib\xe9.so.1", "lib\xe9.so.1", true}, // Latin 1
		{"lib\xe9.so.1", "lib\xe8.so.1", false},
		{"lib?.so.1", "lib\xe9.so.1", true},
		{"x[z-a]", "xb", false},
	} {
		if got := newPattern(c.pattern).match(c.name); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.name, got)
		}
	}
}

func TestHintsForWhatPrebuiltSoftwareAsksFor(t *testing.T) {
	t.Parallel()
	var h Hints
	if got := h.attribute("libz.so.1"); len(got) != 1 || got[0] != "zlib" {
		t.Errorf("%q", got)
	}
	for _, none := range []string{"libnothing.so.1", "", "libcudart", ".so"} {
		if got := h.attribute(none); got != nil {
			t.Errorf("%q: %q", none, got)
		}
	}
	err := h.Read(strings.NewReader(`# mine
libnothing.so.1 mypackage
zlib.out                                 124,456 x /nix/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-zlib-1.3/lib/libz.so.1
(hidden.lib)                                   0 s /nix/store/0c0n1r2kdb6vxr91pvlc5v6nshqkfi9q-hidden/lib/libz.so.1
not a line of either kind
`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"zlib", "hidden.lib"}, h.attribute("libz.so.1")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"mypackage"}, h.attribute("libnothing.so.1")); diff != "" {
		t.Error(diff)
	}
}

// Where an entry leads if that does not depend on the loader: a name that only begins with "ORIGIN" is not that token.
func TestDirectoriesOfEntries(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]string{
		"$ORIGIN":          "/p/bin",
		"${ORIGIN}/../lib": "/p/bin/../lib",
		"/a/$ORIGIN/b/":    "/a//p/bin/b",
		"/a/":              "/a",
		"a":                "",
		"":                 "",
		"$ORIGINAL/lib":    "",
		"/a/$LIB":          "",
		"$ORIGIN/$LIB":     "",
		"/a/$PLATFORM":     "",
		"/a/$x":            "",
	} {
		if got, ok := expand(&Object{Real: "/p/bin/program"}, entry); got != want || ok != (want != "") {
			t.Errorf("%q leads to %q, not %q", entry, got, want)
		}
	}
}
