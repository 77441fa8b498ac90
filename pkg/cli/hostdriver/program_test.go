package hostdriver

import (
	"os"
	"path/filepath"
	"testing"
)

// Of `go run` the program is in a directory that is gone, or may be, when a remedy is followed.
func TestProgramOfGoRun(t *testing.T) {
	before := os.Args[0]
	t.Cleanup(func() { os.Args[0] = before })
	for at, want := range map[string]string{"go-build123/b001/exe/hostDriver": "hostDriver", "bin/hostDriver": ""} {
		os.Args[0] = filepath.Join(t.TempDir(), at)
		if err := os.MkdirAll(filepath.Dir(os.Args[0]), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(os.Args[0], nil, 0o755); err != nil {
			t.Fatal(err)
		}
		if want == "" {
			want = os.Args[0]
		}
		if got := thisProgram(); got != want {
			t.Errorf("%s: %s", at, got)
		}
	}
}
