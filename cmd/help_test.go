package cmd_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"cuda-runpath/pkg/cli/programs"
)

// allCommands returns the words of every program and every command that there is.
func allCommands(t *testing.T) (all [][]string) {
	t.Helper()
	var add func(words []string)
	add = func(words []string) {
		all = append(all, words)
		for name := range strings.Lines(tool(t, words[0], append(slices.Clone(words[1:]), "--generate-bash-completion")...)) {
			name, _, _ = strings.Cut(strings.TrimSpace(name), "\t")
			if name != "help" {
				add(append(slices.Clone(words), name))
			}
		}
	}
	add([]string{"hostDriver"})
	for _, p := range programs.All() {
		if p.Command != nil {
			add([]string{p.Name})
		}
	}
	return all
}

// What --help prints is seen at once on a terminal of 24 lines and 80 columns: how it is called, examples, the flags that are
// common. --help-all has every flag, each as wide as the terminal is.
func TestHelpFitsTheScreen(t *testing.T) {
	all := allCommands(t)
	if len(all) < 25 {
		t.Errorf("only %d commands", len(all))
	}
	option := regexp.MustCompile(`(?m)^   --([a-z-]+)`)
	for _, words := range all {
		name := strings.Join(words, " ")
		run := func(more ...string) string { return tool(t, words[0], append(slices.Clone(words[1:]), more...)...) }
		help := run("--help")
		lines := strings.Split(strings.TrimSuffix(help, "\n"), "\n")
		if len(lines) > 24 {
			t.Errorf("%s --help has %d lines:\n%s", name, len(lines), help)
		}
		whole := run("--help-all")
		for _, line := range append(lines, strings.Split(whole, "\n")...) {
			if utf8.RuneCountInString(line) > 80 {
				t.Errorf("%s: wider than 80 columns: %s", name, line)
			}
		}
		if !strings.HasPrefix(help, name+" - ") || !strings.Contains(help, "\nUSAGE:\n   "+name+" ") {
			t.Errorf("%s --help does not say what it is, and how it is called:\n%s", name, help)
		}
		if !strings.Contains(help, "\nEXAMPLES:\n   ") {
			t.Errorf("%s --help has no example:\n%s", name, help)
		}
		short, long := len(option.FindAllString(help, -1)), len(option.FindAllString(whole, -1))
		if short < long && (!strings.Contains(help, "--help-all") || short < 5 && !strings.Contains(help, "\nCOMMANDS")) {
			t.Errorf("%s --help has %d of %d flags and does not say where the others are:\n%s", name, short, long, help)
		}
		for _, m := range option.FindAllStringSubmatch(help, -1) {
			if !strings.Contains(whole, "\n   --"+m[1]) {
				t.Errorf("%s --help-all does not have --%s", name, m[1])
			}
		}
		if len(words) > 1 {
			if said := tool(t, words[0], append([]string{"help"}, words[1:]...)...); said != help {
				t.Errorf("%s help %s is not %s --help:\n%s", words[0], strings.Join(words[1:], " "), name, said)
			}
		}
		// A flag that is required stands in USAGE.
		out, _ := exec.Command(words[0], append(slices.Clone(words[1:]), ".")...).CombinedOutput()
		usage, _, _ := strings.Cut(help[strings.Index(help, "USAGE:"):], "\n\n")
		if m := regexp.MustCompile(`(--[a-z-]+) ?\S* is required`).FindSubmatch(out); m != nil && !strings.Contains(usage, string(m[1])) {
			t.Errorf("%s: %q, and not in\n%s", name, out, usage)
		}
	}
}

// A file that somebody names is not skipped without a word.
func TestNamedFileIsNotSkippedSilently(t *testing.T) {
	t.Chdir(t.TempDir())
	os.WriteFile("text", []byte("text\n"), 0o644)
	os.WriteFile("empty.c", nil, 0o644)
	tool(t, "cc", "-c", "-o", "object.o", "empty.c")
	for _, command := range []string{
		"runpath show", "runpath set /x", "runpath add /x", "runpath remove --all", "runpath edit --soname x", "runpath shrink", "runpath normalize", "runpath cache show",
		"runpath cache write", "runpath cache remove", "runpath audit", "runpath gpu", "runpath thin --for 9.0", "runpath explain", "noRunpathAmbiguity",
		"stubReplace", "autoAddDriverRunpath", "addCudaCompatRunpath --compat /x", "autoPatchelf", "hostDriver doctor",
	} {
		words := strings.Fields(command)
		for file, reason := range map[string]string{"text": "(not|neither) an ELF file", "object.o": "relocatable|GPU code"} {
			if file == "object.o" && slices.Contains([]string{"runpath thin --for 9.0", "runpath gpu"}, command) {
				continue // an object may have GPU code
			}
			out, _ := exec.Command(words[0], append(slices.Clone(words[1:]), file)...).CombinedOutput()
			if !regexp.MustCompile(reason).Match(out) {
				t.Errorf("%s %s: %s", command, file, out)
			}
		}
	}
}
