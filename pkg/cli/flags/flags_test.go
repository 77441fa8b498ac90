package flags

import (
	"testing"
)

func TestEntriesThatAreRefused(t *testing.T) {
	for _, dir := range []string{"", "lib", "./lib", "/a:/b"} {
		if CheckEntry(dir) == nil {
			t.Errorf("%q is taken", dir)
		}
	}
	for _, dir := range []string{"/a", "$ORIGIN/../lib", "${ORIGIN}"} {
		if err := CheckEntry(dir); err != nil {
			t.Errorf("%q: %v", dir, err)
		}
	}
}
