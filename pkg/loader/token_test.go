package loader

import (
	"debug/elf"
	"slices"
	"testing"
)

// _dl_dst_substitute and is_dst of elf/dl-load.c, rule by rule.
func TestTokens(t *testing.T) {
	plain := tokens{origin: "/o", lib: "lib64", platform: "haswell"}
	secure := tokens{origin: "/usr/lib/o", lib: "lib64", secure: true, executable: true, trusted: []string{"/lib/", "/usr/lib/"}}
	library := secure
	library.executable = false
	for _, c := range []struct {
		name string
		t    tokens
		in   string
		want string
	}{
		{"no token", plain, "/a/b", "/a/b"},
		{"each of them", plain, "$ORIGIN/$LIB/$PLATFORM", "/o/lib64/haswell"},
		{"in braces", plain, "${ORIGIN}/${LIB}x", "/o/lib64x"},
		{"a name that goes on is no token", plain, "/$LIB64/$ORIGINAL", "/$LIB64/$ORIGINAL"},
		{"an unclosed brace is no token", plain, "/${LIB/x", "/${LIB/x"},
		{"another name is no token", plain, "/$HOME", "/$HOME"},
		{"what stands for nothing drops the entry", tokens{origin: "/o"}, "/a/$PLATFORM", ""},
		{"set-user-ID: first component", secure, "$ORIGIN/x", "/usr/lib/o/x"},
		{"set-user-ID: alone", secure, "$ORIGIN", "/usr/lib/o"},
		{"set-user-ID: not as the first component", secure, "/lib/$ORIGIN", ""},
		{"set-user-ID: more than a component", secure, "$ORIGIN-x", ""},
		{"set-user-ID: must lead to a default directory", secure, "$ORIGIN/../../../tmp", ""},
		{"set-user-ID: ends in a default directory", secure, "$ORIGIN/../../lib", "/usr/lib/o/../../lib"},
		{"set-user-ID: a library's list leads anywhere", library, "$ORIGIN/../../../tmp", "/usr/lib/o/../../../tmp"},
	} {
		if got := c.t.expand(c.in); got != c.want {
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

func TestLibrariesOfGLibc(t *testing.T) {
	for name, want := range map[string]bool{
		"libc.so.6": true, "libc.so.6.1": true, "libanl.so.1": true, "libnss_files.so.2": true, "libmvec.so.1": true, "libpcprofile.so": true,
		"libc.so": false, "libc.so.7": false, "libc.so.6.2": false, "libnsl.so.3": false, "libcrypt.so.1": false, "libgcc_s.so.1": false, "": false,
	} {
		if OfGLibc(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
	for name := range x86HWCap {
		if !HardwareDirectory(name) {
			t.Error(name)
		}
	}
	if !HardwareDirectory("tls") || !HardwareDirectory("glibc-hwcaps") || HardwareDirectory("lib") || HardwareDirectory("") {
		t.Error("tls, glibc-hwcaps, lib")
	}
	// What the processor of a program has is among them.
	for _, m := range []elf.Machine{elf.EM_X86_64, elf.EM_386, elf.EM_AARCH64} {
		for _, name := range cpuFor("baseline", m).legacy {
			if !HardwareDirectory(name) {
				t.Error(m, name)
			}
		}
	}
}
