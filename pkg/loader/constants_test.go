package loader

import (
	"runtime"
	"strings"
	"testing"
)

func TestReleaseVersion(t *testing.T) {
	for text, want := range map[string]Version{
		"ld.so (Debian GLIBC 2.36-9) stable release version 2.36.\nCopyright":                           {2, 36},
		"release version of 2.1 \x00 release version 3\x00release version 2.\x00release version 12.345": {12, 345},
		"release version 2.41":                   {2, 41},
		"release version 99999999999999999999.1": {},
		"release version ":                       {},
		"version 2.36":                           {},
		"":                                       {},
	} {
		if v, ok := releaseVersion([]byte(text)); v != want || ok != (want != Version{}) {
			t.Errorf("%q: %v %v", text, v, ok)
		}
	}
}

func TestFirstProcessor(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("only asked for on amd64")
	}
	text := firstProcessor()
	if strings.Count(text, "processor\t:") != 1 || strings.Count(text, "\nflags\t") != 1 || strings.Contains(text, "\n\n") {
		t.Errorf("%q", text)
	}
}
