package hostdriver

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"cuda-runpath/pkg/cli/urfave"
)

// runs runs hostDriver on arguments and returns its exit status and what it printed, errors last.
func runs(args ...string) (status int, printed string) {
	var out, err bytes.Buffer
	status = urfave.Run(app(), ownArguments(append([]string{"hostDriver"}, args...)), &out, &err)
	return status, out.String() + err.String()
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
