package loader

import (
	"path/filepath"
	"testing"
)

// A file of the assumed driver has one path, whatever else stands for its directory.
func TestInsideTheAssumedDriver(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for link, want := range map[string]string{"": "/run/opengl-driver/lib/x/y", "/drv": "/drv/x/y"} {
		for range 20 {
			l, err := New(Options{AssumeDriver: dir, DriverLink: link})
			if err != nil {
				t.Fatal(err)
			}
			if got := l.Inside(dir + "/x/y"); got != want {
				t.Fatalf("with the link %q: %s", link, got)
			}
			if host, _, err := l.Files().Resolve("/run/opengl-driver-32/lib"); host != dir {
				t.Fatal(host, err)
			}
		}
	}
}
