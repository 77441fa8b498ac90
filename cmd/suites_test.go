package cmd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// tests/run refuses a suite that there is not, and its closing list accounts for each skip that suites count.
func TestSuites(t *testing.T) {
	for _, tool := range []string{"bash", "flock", "timeout"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not installed")
		}
	}
	script, err := os.ReadFile("../tests/run")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"tests/run": string(script), "tests/packages": "",
		"tests/one/run": "echo 'skipped a thing: it is not here'\necho 'skipped (3): no compiler'\necho 'skipped 2: no linker'\necho '1 passed, 0 failed, 6 skipped'\n",
		"tests/two/run": "echo 'skipped: nobody hears of it'\necho '1 passed, 0 failed, 2 skipped'\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) (string, int) {
		cmd := exec.Command("bash", append([]string{filepath.Join(dir, "tests/run")}, args...)...)
		cmd.Env = append(os.Environ(), "CUDA_RUNPATH_BIN="+dir)
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	out, status := run("one", "two")
	list := regexp.MustCompile(`(?s)=== skipped\n(.*)\n\n=== summary`).FindStringSubmatch(out)
	const want = "one: a thing: it is not here\none: (3): no compiler\none: 2: no linker\ntwo: 2 more, which the suite does not name"
	if status != 0 || list == nil || list[1] != want || !strings.Contains(out, "\n2 passed, 0 failed, 8 skipped\n") {
		t.Errorf("status %d\n%s", status, out)
	}
	for _, name := range []string{"thre", "--all", "run"} {
		if out, status := run("one", name); status != 2 || !strings.Contains(out, name+": there is no such suite; there are: go, cmd, one, two, packages") {
			t.Errorf("%s: status %d\n%s", name, status, out)
		}
	}
}
