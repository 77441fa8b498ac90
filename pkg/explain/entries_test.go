package explain

import (
	"debug/elf"
	"slices"
	"testing"

	"cuda-runpath/pkg/finding"
	"cuda-runpath/tests/tinyelf"
)

// An entry that looks mangled is none where there is such a directory.
func TestMangledEntriesThatAreThere(t *testing.T) {
	x := lib("libx.so")
	s := load(t, map[string]tinyelf.Object{"/p": program("/a;b:/c;d:/none:/a", elf.DT_RUNPATH, "libx.so"), "/a;b/libx.so": x, "/a/libx.so": x})
	of := map[string][]string{}
	for _, f := range caseOf(s).Conclusions() {
		if f.Entry != nil {
			of[f.ID] = append(of[f.ID], *f.Entry)
		}
	}
	if got := of[finding.MangledEntry]; !slices.Equal(got, []string{"/c;d"}) {
		t.Errorf("mangled: %q", got)
	}
	if got := of[finding.DanglingEntry]; !slices.Equal(got, []string{"/none"}) {
		t.Errorf("missing: %q", got)
	}
}
