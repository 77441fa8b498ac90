package cmd_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// completions are what shells offer for the beginnings of command lines, in a directory that has a file "afile".
var completions = []struct {
	typed   string
	offers  []string // words, and what they mean
	without string
}{
	{typed: "runpath ", offers: []string{"explain", "show which libraries the loader would find"}, without: "afile"},
	{typed: "runpath audit --explain ", offers: []string{"empty-entry", "mangled-entry", "gpu-code-missing", "empty entry in the run path"}, without: "afile"},
	{typed: "runpath audit --ignore-finding em", offers: []string{"empty-entry"}, without: "afile"},
	{typed: "runpath show a", offers: []string{"afile"}},
	{typed: "stubReplace --of", offers: []string{"--offer"}, without: "afile"},
	{typed: "runpath edit --re", offers: []string{"--replace-entry", "replace the entry OLD"}, without: "afile"},
	{typed: "autoPatchelf --tool ", offers: []string{"autoAddDriverRunpath", "stubReplace"}, without: "afile"},
	{typed: "runpath help expl", offers: []string{"explain"}, without: "afile"},
}

func TestCompletionInFish(t *testing.T) {
	fish, err := exec.LookPath("fish")
	if err != nil {
		t.Skip("no fish here: ", err)
	}
	t.Chdir(t.TempDir())
	os.WriteFile("afile", nil, 0o644)
	t.Setenv("HOME", t.TempDir())
	for _, c := range completions {
		name, _, _ := strings.Cut(c.typed, " ")
		out, err := exec.Command(fish, "--no-config", "-c", name+" --completion fish | source; complete -C '"+c.typed+"'").CombinedOutput()
		for _, want := range c.offers {
			if err != nil || !strings.Contains(string(out), want) {
				t.Errorf("%q: no %q, %v:\n%s", c.typed, want, err, out)
			}
		}
		if c.without != "" && strings.Contains(string(out), c.without) {
			t.Errorf("%q: %s", c.typed, out)
		}
	}
}

func TestCompletionInZsh(t *testing.T) {
	long(t)
	if _, err := exec.LookPath("zsh"); err != nil {
		t.Skip("no zsh here: ", err)
	}
	t.Chdir(t.TempDir())
	os.WriteFile("afile", nil, 0o644)
	for _, c := range completions {
		name, _, _ := strings.Cut(c.typed, " ")
		s, cmd := atTerminal(t, 160, []string{"HOME=" + t.TempDir()}, "zsh", "-f", "-i")
		until := func(ready func(shown string) bool) string {
			for range 1200 { // a minute at most
				if shown := s.shown(); ready(shown) {
					return shown
				}
				time.Sleep(50 * time.Millisecond)
			}
			return s.shown()
		}
		// The echo of the line has the quotes between, what it prints has not.
		s.master.WriteString("autoload -Uz compinit; compinit -u -D; LISTMAX=1000; setopt no_beep list_ambiguous; eval \"$(" + name + " --completion zsh)\"; echo rea''dy\n")
		before := until(func(shown string) bool { return strings.Contains(shown, "ready\n") })
		tabs := "\t" // completes the one word that fits: another would be for the word after it
		if len(c.offers) > 1 {
			tabs = "\t\t"
		}
		s.master.WriteString(c.typed + tabs)
		typed := func(shown string) string { return strings.TrimPrefix(shown, before) }
		shown := until(func(shown string) bool {
			for _, want := range c.offers {
				// A word alone is put into the line.
				if !strings.Contains(typed(shown), want) {
					return false
				}
			}
			return true
		})
		for _, want := range c.offers {
			if !strings.Contains(typed(shown), want) {
				t.Errorf("%q: no %q in %q", c.typed, want, typed(shown))
			}
		}
		if c.without != "" && strings.Contains(typed(shown), c.without) {
			t.Errorf("%q: %q", c.typed, typed(shown))
		}
		cmd.Process.Kill()
		cmd.Wait()
	}
}
