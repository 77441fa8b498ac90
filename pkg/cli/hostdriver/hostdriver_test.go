package hostdriver

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cuda-runpath/pkg/cli/urfave"
	"cuda-runpath/tests/tinyelf"
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

// What root makes for everybody does not depend on whoever set LD_LIBRARY_PATH: it is read by none of these commands.
func TestLibraryPathDecidesNothingForOthers(t *testing.T) {
	dir := t.TempDir() + "/planted"
	library(t, dir, "libcuda.so.1", "999.1.2", tinyelf.Object{})
	t.Setenv("LD_LIBRARY_PATH", dir)
	for _, command := range []string{"find --verbose --machine x86_64", "install --dry-run --machine x86_64 --prefix " + t.TempDir() + "/x", "tmpfiles --dry-run --program /p --machine x86_64",
		"cdi --dry-run --machine x86_64", "sandbox --dry-run --program /p", "uninstall --dry-run"} {
		if _, said := runs(strings.Fields(command)...); said == "" || strings.Contains(said, dir) || strings.Contains(said, "999.1.2") {
			t.Errorf("%s: %s", command, said)
		}
	}
}
