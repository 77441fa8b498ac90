package loader

import "testing"

func TestHowALibraryWasFound(t *testing.T) {
	t.Parallel()
	main, other := &Object{Path: "/bin/p"}, &Object{Path: "/lib/liby.so"}
	for _, c := range []struct {
		o    Object
		want string
	}{
		{Object{Rule: ByRunPath, Entry: "$ORIGIN/../lib", List: main}, "DT_RUNPATH: $ORIGIN/../lib"},
		{Object{Rule: ByRPath, Entry: "/a", List: other}, "DT_RPATH of /lib/liby.so: /a"},
		{Object{Rule: ByRunPath, List: main}, `DT_RUNPATH: "" (the working directory)`},
		{Object{Rule: ByEnv, Entry: "/e"}, "LD_LIBRARY_PATH: /e"},
		{Object{Rule: ByDefault, Entry: "/lib", List: main}, "default directories: /lib"},
		{Object{Rule: ByPathFile, Entry: "/lib"}, "ld-musl path file: /lib"},
		{Object{Rule: ByPath, Entry: "/no"}, "by its path, no search"},
		{Object{Rule: ByCache, Entry: "/no"}, "ld.so.cache"},
	} {
		if got := c.o.How(main); got != c.want {
			t.Errorf("%s: %q, want %q", c.o.Rule, got, c.want)
		}
	}
	if got := (&Object{Rule: ByRunPath, Entry: "/a", List: main}).How(nil); got != "DT_RUNPATH of /bin/p: /a" {
		t.Error(got)
	}
}
