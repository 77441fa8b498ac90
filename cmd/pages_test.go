package cmd_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/cli/programs"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/forwardcompat"
)

// Links between the pages lead to a file that is there, and to one of its headings.
func TestLinksOfThePages(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"*.md", ".github/*.md", "*/*.md", "*/*/*.md"} {
		found, err := filepath.Glob("../" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	read := func(page string) string {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		return regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(string(text), "")
	}
	heading := regexp.MustCompile(`(?m)^#+ (.*)$`)
	links := 0
	for _, page := range pages {
		for _, link := range regexp.MustCompile(`\]\(([^:)\s]+)\)`).FindAllStringSubmatch(read(page), -1) {
			name, part, _ := strings.Cut(link[1], "#")
			at := page
			if name != "" {
				at = filepath.Join(filepath.Dir(page), name)
			}
			links++
			if _, err := os.Stat(at); err != nil {
				t.Errorf("%s: %s: %v", page, link[1], err)
			} else if part == "" || strings.HasPrefix(part, "setup-hook-") { // an anchor of nixpkgs' manual
				continue
			} else if !slices.ContainsFunc(heading.FindAllStringSubmatch(read(at), -1), func(h []string) bool {
				// As GitHub does it.
				return part == strings.ReplaceAll(regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")
			}) {
				t.Errorf("%s: %s: there is no such heading", page, link[1])
			}
		}
	}
	if links < 20 {
		t.Errorf("only %d links in %d pages", links, len(pages))
	}
}

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
	for _, r := range finding.Situations() {
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
	for _, e := range forwardcompat.Errors {
		if row := fmt.Sprintf("\n| %d | %s | %s", e.Code, e.Text, e.Means); !strings.Contains(rows, row) {
			t.Errorf("no row that begins with %q", row)
		}
	}
}

// Every program and every command has a man page, whose examples are command lines that are
// understood.
func TestManPages(t *testing.T) {
	page := func(args ...string) {
		text := tool(t, args[0], args[1:]...)
		for _, section := range []string{"NAME", "SYNOPSIS", "EXAMPLES", "SEE ALSO"} {
			if !strings.Contains(text, "\n.SH "+section+"\n") {
				t.Errorf("%q: no %s:\n%s", args, section, text)
			}
		}
		if groff, err := exec.LookPath("groff"); err == nil {
			cmd := exec.Command(groff, "-man", "-ww", "-z")
			cmd.Stdin = strings.NewReader(text)
			if said, err := cmd.CombinedOutput(); err != nil || len(said) > 0 {
				t.Errorf("%q: %v: %s", args, err, said)
			}
		}
		_, examples, _ := strings.Cut(text, ".SH EXAMPLES\n.EX\n")
		examples, _, _ = strings.Cut(examples, "\n.EE")
		for line := range strings.Lines(examples) {
			line = strings.NewReplacer(`\-`, "-", `\e`, `\`, "'", "").Replace(line)
			line = strings.Replace(line, `sudo "$(command -v hostDriver)"`, "hostDriver", 1)
			line, _, _ = strings.Cut(line, " | ")
			words := strings.Fields(line)
			named := 1 // the program, and the commands that are named
			for named < len(words) && slices.Contains(strings.Fields(tool(t, words[0], append(slices.Clone(words[1:named]), "--generate-bash-completion")...)), words[named]) {
				named++
			}
			help := strings.Fields(strings.ReplaceAll(tool(t, words[0], append(slices.Clone(words[1:named]), "--help-all")...), ",", " "))
			for _, flag := range words[named:] {
				if strings.HasPrefix(flag, "-") && flag != "--its-own-flag" && !slices.Contains(help, flag) {
					t.Errorf("%q: there is no %s", line, flag)
				}
			}
		}
	}
	commands := func(name string) {
		page(name, "--man")
		for _, word := range strings.Fields(tool(t, name, "--generate-bash-completion")) {
			page(name, "--man", word)
		}
	}
	commands("hostDriver")
	for _, p := range programs.All() {
		if p.Command != nil {
			commands(p.Name)
		}
	}
	if out, err := exec.Command("runpath", "--man", "nothing").CombinedOutput(); err == nil || !strings.Contains(string(out), "there is no such page") {
		t.Errorf("%v: %s", err, out)
	}
}
