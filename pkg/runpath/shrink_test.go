package runpath

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestShrink(t *testing.T) {
	t.Parallel()
	holds := map[string]string{"/a": "x", "/b": "y", "/c": "x y", "/tmp/build": "x z", "/store": "z"}
	use := Use{
		Names:     []string{"x", "y", "z"},
		Holds:     func(e, name string) bool { return strings.Contains(holds[e], name) },
		Keep:      func(e string) bool { return e == "/run/opengl-driver/lib" },
		Temporary: func(e string) bool { return strings.HasPrefix(e, "/tmp/") },
	}
	for _, c := range []struct {
		in, kept, dropped string
	}{
		{"", "", ""},
		{"/a:/b:/store", "/a:/b:/store", ""},
		{"/a:/c:/b", "/a:/c", "/b"},
		{"/c:/a:/b", "/c", "/a:/b"},
		{"/a:/none:$ORIGIN:rel:/a/", "/a:$ORIGIN:rel", "/none:/a/"},
		{"/run/opengl-driver/lib:/none", "/run/opengl-driver/lib", "/none"},
		{"$ORIGIN/../lib:${ORIGIN}:/x/$LIB", "$ORIGIN/../lib:${ORIGIN}:/x/$LIB", ""},
		{"/tmp/build:/a:/store", "/a:/store", "/tmp/build"}, // what comes first counts not where it is gone at run time
		{"/tmp/build:/a", "/tmp/build:/a", ""},              // z is nowhere else
	} {
		kept, dropped := Shrink(Parse(c.in), use)
		if diff := cmp.Diff([]string{c.kept, c.dropped}, []string{kept.String(), strings.Join(dropped, ":")}); diff != "" {
			t.Errorf("%q: %s", c.in, diff)
		}
	}
}

// Once shrunk, a list stays, and what the loader would find in it it still finds, in the same place.
func TestShrinkFindsTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		dirs := []string{"/a", "/b", "/c", "$ORIGIN", "/d/", "/d"}
		l := List(rapid.SliceOf(rapid.SampledFrom(dirs)).Draw(t, "list"))
		has := rapid.SliceOfDistinct(rapid.StringMatching("(/a|/b|/c|/d) [xyz]"), rapid.ID).Draw(t, "files")
		holds := func(e, name string) bool {
			for _, h := range has {
				if h == e+" "+name {
					return true
				}
			}
			return false
		}
		use := Use{Names: []string{"x", "y", "z"}, Holds: holds}
		first := func(l List, name string) string {
			for _, e := range l {
				if holds(Key(e), name) {
					return Key(e)
				}
			}
			return ""
		}
		kept, _ := Shrink(l, use)
		for _, name := range use.Names {
			if first(l, name) != first(kept, name) {
				t.Fatalf("%v -> %v: %s is in %q, was in %q", l, kept, name, first(kept, name), first(l, name))
			}
		}
		if again, dropped := Shrink(kept, use); cmp.Diff(kept, again) != "" || dropped != nil {
			t.Fatalf("%v -> %v -> %v", l, kept, again)
		}
	})
}
