package cmd_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"cuda-runpath/pkg/cli/programs"
	"cuda-runpath/pkg/finding"
	"cuda-runpath/pkg/forwardcompat"
)

// Links between the pages lead to a file that is there, and to one of its headings.
func TestLinksOfThePages(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"*.md", "*/*.md", "*/*/*.md"} {
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

// The page of findings has a row for each kind, with its severity.
func TestPageNamesEveryFinding(t *testing.T) {
	page, err := os.ReadFile("runpath/findings.md")
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

// The page of errors has a row for each one that doctor names, with CUDA's words and ours.
func TestPageNamesEveryError(t *testing.T) {
	page, err := os.ReadFile("hostDriver/errors.md")
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

var asked sync.Map // what programs have said of their commands and flags, by command line

// understood fails the test where a command line of a page names a command or a flag that its program has not.
func understood(t *testing.T, line string) {
	t.Helper()
	line = strings.Replace(line, `sudo "$(command -v hostDriver)"`, "hostDriver", 1)
	line, _, _ = strings.Cut(line, " | ")
	words := strings.Fields(line)
	run := func(args ...string) string {
		key := strings.Join(append(words[:1:1], args...), " ")
		if said, ok := asked.Load(key); ok {
			return said.(string)
		}
		out, err := exec.Command(words[0], args...).CombinedOutput()
		if err != nil {
			t.Errorf("%q: %v: %s", line, err, out)
		}
		asked.Store(key, string(out))
		return string(out)
	}
	named := 1 // the program, and the commands that are named
	for named < len(words) {
		commands := strings.Fields(run(append(slices.Clone(words[1:named]), "--generate-bash-completion")...))
		if !slices.Contains(commands, words[named]) {
			if named == 1 && len(commands) > 1 && regexp.MustCompile(`^[a-z]+$`).MatchString(words[named]) {
				t.Errorf("%q: there is no command %s", line, words[named])
			}
			break
		}
		named++
	}
	help := strings.Fields(strings.ReplaceAll(run(append(slices.Clone(words[1:named]), "--help-all")...), ",", " "))
	for _, flag := range words[named:] {
		if flag == "--" || strings.HasPrefix(flag, "--its-own") {
			break
		}
		flag, _, _ = strings.Cut(flag, "=")
		if strings.HasPrefix(flag, "-") && !slices.Contains(help, flag) {
			t.Errorf("%q: there is no %s", line, flag)
		}
	}
}

// README is one page: 700 words, no sentence above 25.
func TestReadmeIsOnePage(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if words := len(strings.Fields(string(text))); words > 700 {
		t.Errorf("README has %d words", words)
	}
	prose := regexp.MustCompile("(?ms)^```.*?^```$|^[|#!].*?$").ReplaceAllString(string(text), "\n\n")
	sentences := regexp.MustCompile(`[.!?]\s|\n\n`).Split(prose, -1)
	for _, sentence := range sentences {
		if words := strings.Fields(sentence); len(words) > 25 {
			t.Errorf("%d words: %s", len(words), strings.Join(words, " "))
		}
	}
	if len(sentences) < 10 {
		t.Errorf("only %d sentences", len(sentences))
	}
}

// All pages together are no longer than somebody reads in two hours.
func TestPagesAreShort(t *testing.T) {
	words := 0
	for _, pattern := range []string{"*.md", "*/*.md", "*/*/*.md"} {
		pages, err := filepath.Glob("../" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			words += len(strings.Fields(string(text)))
		}
	}
	if words < 15_000 || words > 24_000 {
		t.Errorf("%d words", words)
	}
}

// Each command in a table or a block of README and of the tools' pages is understood.
func TestCommandsOfThePages(t *testing.T) {
	pages := []string{"../README.md"}
	for _, pattern := range []string{"*.md", "*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	const program = `(?:sudo "\$\(command -v hostDriver\)"|stubReplace|auto[A-Z]\w+|add[A-Z]\w+|noRunpathAmbiguity|runpath|hostDriver)`
	command := regexp.MustCompile(`(?m)^(?:    )?\$ (` + program + ` .*)$|` + "`(" + program + " [^`]*)`")
	checked := map[string]bool{}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "| ") && !strings.HasPrefix(strings.TrimLeft(line, " "), "$ ") {
				continue
			}
			for _, found := range command.FindAllStringSubmatch(line, -1) {
				line, _, _ := strings.Cut(strings.ReplaceAll(found[1]+found[2], `\|`, "|"), " #")
				if line = regexp.MustCompile(`"\$\(nix [^"]*"`).ReplaceAllString(line, "DIR"); !checked[line] {
					checked[line] = true
					understood(t, line)
				}
			}
		}
	}
	if len(checked) < 60 {
		t.Errorf("only %d commands", len(checked))
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
			understood(t, strings.NewReplacer(`\-`, "-", `\e`, `\`, "'", "").Replace(line))
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
