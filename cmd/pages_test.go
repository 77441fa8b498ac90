package cmd_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"cuda-runpath/pkg/audit"
	"cuda-runpath/pkg/driver"
)

// The page of runpath has a row for each kind of finding, with its severity.
func TestPageNamesEveryFinding(t *testing.T) {
	page, err := os.ReadFile("runpath/README.md")
	if err != nil {
		t.Fatal(err)
	}
	severity := map[string]string{} // as the page says it
	_, table, _ := strings.Cut(string(page), "| finding | severity | what it is |\n")
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			break
		}
		for name := range strings.SplitSeq(cells[1], ",") {
			severity[strings.Trim(name, " `")] = strings.TrimSpace(cells[2])
		}
	}
	for _, r := range audit.Rules() {
		if says, ok := severity[r.ID]; !ok {
			t.Errorf("no row for %s", r.ID)
		} else if !strings.HasPrefix(says, string(r.Severity)) {
			t.Errorf("%s is %q on the page, and by itself %q", r.ID, says, r.Severity)
		}
	}
}

// The page of hostDriver has a row for each error that doctor names, with CUDA's words and ours.
func TestPageNamesEveryError(t *testing.T) {
	page, err := os.ReadFile("hostDriver/README.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.ReplaceAll(string(page), "`", "")
	for _, e := range driver.Errors {
		if row := fmt.Sprintf("\n| %d | %s | %s", e.Code, e.Text, e.Means); !strings.Contains(rows, row) {
			t.Errorf("no row that begins with %q", row)
		}
	}
}
