package loader

import (
	"strings"
	"testing"
)

func TestReleaseVersion(t *testing.T) {
	for text, want := range map[string]Version{
		"ld.so (Debian GLIBC 2.36-9) stable release version 2.36.\nCopyright":                          36,
		"release version of 2.1 \x00 release version 3\x00release version 2.\x00release version 2.345": 345,
		"release version 2.41":                   41,
		"release version 2.99999999999999999999": 0,
		"release version ":                       0,
		"version 2.36":                           0,
		"":                                       0,
	} {
		if v, ok := releaseVersion([]byte(text)); v != want || ok != (want != 0) {
			t.Errorf("%q: %v %v", text, v, ok)
		}
	}
}

func TestSystemDirs(t *testing.T) {
	for text, want := range map[string]string{
		"\x00/lib/x86_64-linux-gnu/\x00/usr/lib/\x00/lib/\x00other\x00/lib64/\x00": "/lib/x86_64-linux-gnu/ /usr/lib/ /lib/",
		"/lib/\x00/etc/ld.so.cache\x00/%s/lib/\x00/nix/store/abc-glibc/lib/\x00":   "/nix/store/abc-glibc/lib/",
		"\x00/lib\x00/\x00a/lib/\x00/usr/lib64/\x00/l":                             "/usr/lib64/",
		"\x00/etc/\x00": "",
		"":              "",
	} {
		if got := strings.Join(systemDirs([]byte(text)), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
