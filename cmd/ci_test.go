package cmd_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// items returns the list elements of a YAML file that is written in blocks, by the keys above them, joined by dots.
// An element is its first line.
func items(t *testing.T, file string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	type level struct {
		indent int
		key    string
	}
	var above []level
	found := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		rest := strings.TrimLeft(line, " ")
		indent := len(line) - len(rest)
		rest, _, _ = strings.Cut(strings.TrimSpace(rest), " #")
		if rest == "" || rest[0] == '#' {
			continue
		}
		item, isItem := strings.CutPrefix(rest, "- ")
		for len(above) > 0 && (above[len(above)-1].indent > indent || above[len(above)-1].indent == indent && !isItem) {
			above = above[:len(above)-1]
		}
		if isItem {
			keys := make([]string, len(above))
			for i, l := range above {
				keys[i] = l.key
			}
			path := strings.Join(keys, ".")
			found[path] = append(found[path], item)
			continue
		}
		if key, _, ok := strings.Cut(rest, ":"); ok {
			above = append(above, level{indent, key})
		}
	}
	return found
}

// golangci-lint refuses a configuration with an item of another list among the rules of revive.
func TestLintConfiguration(t *testing.T) {
	const file = "../.golangci.yml"
	all := items(t, file)
	rules := all["linters.settings.revive.rules"]
	if len(rules) == 0 {
		t.Errorf("revive has no rules: %v", all)
	}
	for _, rule := range rules {
		if !strings.HasPrefix(rule, "name: ") {
			t.Errorf("a rule of revive without a name: %s", rule)
		}
	}
	exclusions := all["linters.exclusions.rules"]
	if len(exclusions) == 0 {
		t.Error("nothing is excluded")
	}
	for _, rule := range exclusions {
		if !strings.HasPrefix(rule, "path: ") {
			t.Errorf("an exclusion without a path: %s", rule)
		}
	}

	linter, err := exec.LookPath("golangci-lint")
	if err != nil {
		return
	}
	const module = "github.com/golangci/golangci-lint/v2"
	about, _ := exec.Command("go", "version", "-m", linter).Output()
	version := regexp.MustCompile(`\tmod\t` + module + `\t(\S+)`).FindSubmatch(about)
	if version == nil {
		t.Skipf("%s does not say which version of %s it is", linter, module)
	}
	out, err := exec.Command("go", "mod", "download", "-json", module+"@"+string(version[1])).Output()
	var source struct{ Dir string }
	if err != nil || json.Unmarshal(out, &source) != nil {
		t.Skipf("the schema of %s cannot be had: %v", module, err)
	}
	schema := filepath.Join(source.Dir, "jsonschema", "golangci.jsonschema.json")
	if out, err := exec.Command(linter, "config", "verify", "--config", file, "--schema", schema).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// What the workflows start is there and can be run, and what they and the pages say of Go's version agrees.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob("../.github/workflows/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	files = append(files, "../.ci/run")
	program := regexp.MustCompile(`\b(?:tests|cmd|nix|hooks)/[\w./-]+\b`)
	started := map[string][]string{}
	var text strings.Builder
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(content)
		for line := range strings.Lines(string(content)) {
			started[filepath.Base(file)] = append(started[filepath.Base(file)], program.FindAllString(line, -1)...)
		}
		for _, name := range started[filepath.Base(file)] {
			if info, err := os.Stat(filepath.Join("..", name)); err != nil {
				t.Errorf("%s: %v", file, err)
			} else if strings.HasPrefix(name, "tests/") && info.Mode()&0o111 == 0 {
				t.Errorf("%s: %s cannot be executed", file, name)
			}
		}
	}
	for file, name := range map[string]string{"tests.yml": "tests/run", "run": "tests/run", "release.yml": "tests/release/make"} {
		if !slices.Contains(started[file], name) {
			t.Errorf("%s does not start %s: %v", file, name, started[file])
		}
	}

	page, err := os.ReadFile("../.github/CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`GOTOOLCHAIN=go(\S+)`).FindSubmatch(page)
	if version == nil {
		t.Fatal("CONTRIBUTING.md names no version of Go for a release")
	}
	if want := `go-version: "` + string(version[1]) + `"`; !strings.Contains(text.String(), want) {
		t.Errorf("no workflow has %s", want)
	}
}
