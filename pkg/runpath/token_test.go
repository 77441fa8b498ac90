package runpath

import (
	"slices"
	"testing"
)

// _dl_dst_substitute and is_dst of elf/dl-load.c, rule by rule.
func TestTokens(t *testing.T) {
	plain := Tokens{Origin: "/o", Lib: "lib64", Platform: "haswell"}
	secure := Tokens{Origin: "/usr/lib/o", Lib: "lib64", Secure: true, Executable: true, Trusted: []string{"/lib/", "/usr/lib/"}}
	library := secure
	library.Executable = false
	for _, c := range []struct {
		name string
		t    Tokens
		in   string
		want string
	}{
		{"no token", plain, "/a/b", "/a/b"},
		{"each of them", plain, "$ORIGIN/$LIB/$PLATFORM", "/o/lib64/haswell"},
		{"in braces", plain, "${ORIGIN}/${LIB}x", "/o/lib64x"},
		{"a name that goes on is no token", plain, "/$LIB64/$ORIGINAL", "/$LIB64/$ORIGINAL"},
		{"an unclosed brace is no token", plain, "/${LIB/x", "/${LIB/x"},
		{"another name is no token", plain, "/$HOME", "/$HOME"},
		{"what stands for nothing drops the entry", Tokens{Origin: "/o"}, "/a/$PLATFORM", ""},
		{"set-user-ID: first component", secure, "$ORIGIN/x", "/usr/lib/o/x"},
		{"set-user-ID: alone", secure, "$ORIGIN", "/usr/lib/o"},
		{"set-user-ID: not as the first component", secure, "/lib/$ORIGIN", ""},
		{"set-user-ID: more than a component", secure, "$ORIGIN-x", ""},
		{"set-user-ID: more than a component, with a dot", secure, "$ORIGIN../x", ""},
		{"set-user-ID: must lead to a default directory", secure, "$ORIGIN/../../../tmp", ""},
		{"set-user-ID: ends in a default directory", secure, "$ORIGIN/../../lib", "/usr/lib/o/../../lib"},
		{"set-user-ID: a library's list leads anywhere", library, "$ORIGIN/../../../tmp", "/usr/lib/o/../../../tmp"},
	} {
		if got := c.t.Expand(c.in); got != c.want {
			t.Errorf("%s: %q is %q, not %q", c.name, c.in, got, c.want)
		}
	}
}

func TestDirectoriesWhereTheLoaderIsNotKnown(t *testing.T) {
	for entry, want := range map[string][]string{
		"/a":               {"/a"},
		"$ORIGIN/../lib":   {"/o/../lib"},
		"/a/$LIB":          {"/a/lib", "/a/lib64", "/a/lib32", "/a/lib/x86_64-linux-gnu", "/a/lib/aarch64-linux-gnu", "/a/lib/i386-linux-gnu"},
		"/a/$PLATFORM":     nil,
		"/a/$LIB/${OTHER}": nil,
		"relative":         nil,
		"":                 nil,
	} {
		if got := Directories(entry, "/o"); !slices.Equal(got, want) {
			t.Errorf("%q: %q, not %q", entry, got, want)
		}
	}
}

func TestOrigin(t *testing.T) {
	for list, want := range map[string]bool{
		"$ORIGIN": true, "/a:${ORIGIN}/b": true, "$LIB/$ORIGIN": true, "/a/$ORIGIN-b": true,
		"": false, "/ORIGINAL/stubs": false, "ORIGIN/../lib": false, "$ORIGINAL": false, "$LIB:${LIB}:$": false, "${ORIGIN": false,
	} {
		if HasOrigin(list) != want {
			t.Errorf("%q: %v", list, !want)
		}
	}
}
