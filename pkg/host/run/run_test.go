package run

import (
	"slices"
	"testing"
)

func TestLibraryPathHasNoEmptyEntry(t *testing.T) {
	for _, test := range []struct{ env, want []string }{
		{[]string{"A=b"}, []string{"A=b", "LD_LIBRARY_PATH=/x:/y"}},
		{[]string{"LD_LIBRARY_PATH=", "A=b"}, []string{"A=b", "LD_LIBRARY_PATH=/x:/y"}},
		{[]string{"LD_LIBRARY_PATH=/old:/older", "LD_LIBRARY_PATHS=z"}, []string{"LD_LIBRARY_PATHS=z", "LD_LIBRARY_PATH=/x:/y:/old:/older"}},
	} {
		if got := withLibraryPath(test.env, []string{"/x", "/y"}); !slices.Equal(got, test.want) {
			t.Errorf("%q: %q, want %q", test.env, got, test.want)
		}
	}
}
