package hook

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// All bash that a package's build runs is short: the shims, what nix/ runs, and the strings of Nix that are scripts. What
// the functions of lib.nix run (audits, manifests, images) is counted by itself. The checks' own, and what people run (apps,
// formatter), is not counted, nor what is a comment or empty.
func TestThereIsLittleBash(t *testing.T) {
	const most, mostOfLib, wide = 300, 65, 100
	total, ofLib := 0, 0
	count := func(name, text string) {
		n := 0
		for _, line := range strings.Split(text, "\n") {
			if utf8.RuneCountInString(line) > wide {
				t.Errorf("%s: %d columns, at most %d: %s", name, utf8.RuneCountInString(line), wide, line)
			}
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				n++
			}
		}
		t.Logf("%4d %s", n, name)
		switch {
		case strings.HasSuffix(name, "nix/patch-environment.bash"): // which people run
		case strings.Contains(name, "nix/lib.nix"):
			ofLib += n
		default:
			total += n
		}
	}
	files := func(patterns ...string) (names []string) {
		for _, pattern := range patterns {
			found, err := filepath.Glob("../../../" + pattern)
			if err != nil || len(found) == 0 {
				t.Fatalf("%s: %v, %v", pattern, found, err)
			}
			names = append(names, found...)
		}
		return names
	}
	for _, name := range files("hooks/*.bash", "hooks/*/*.bash", "nix/*.bash") {
		if strings.Contains(name, "/tests/") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		count(name, string(text))
	}
	for _, name := range files("hooks/*.nix", "hooks/fixupElf/package.nix", "nix/*.nix") {
		if base := filepath.Base(name); base == "apps.nix" || base == "formatter.nix" {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		count(name+"'s strings", scripts(string(text)))
	}
	if total > most || ofLib > mostOfLib {
		t.Errorf("%d lines of bash, at most %d; and %d of lib.nix, at most %d", total, most, ofLib, mostOfLib)
	}
}

// scripts returns what stands between two pairs of apostrophes in Nix, but for descriptions.
func scripts(nix string) string {
	nix = regexp.MustCompile(`longDescription = ''(?s:.*?)'';`).ReplaceAllString(nix, "")
	nix = regexp.MustCompile(`(?m)^ *#.*`).ReplaceAllString(nix, "")
	nix = strings.NewReplacer("''$", "$", "'''", "''", `"''"`, "", "''\\", "\\").Replace(nix)
	var all strings.Builder
	for i, part := range strings.Split(nix, "''") {
		if i%2 == 1 {
			for _, line := range strings.Split(strings.TrimRight(part, " "), "\n") {
				all.WriteString(strings.TrimPrefix(line, indentation(part)) + "\n")
			}
		}
	}
	return all.String()
}

// indentation is what Nix takes off each line.
func indentation(text string) string {
	least := ""
	for _, line := range strings.Split(text, "\n") {
		if rest := strings.TrimLeft(line, " "); rest != "" && (least == "" || len(line)-len(rest) < len(least)) {
			least = line[:len(line)-len(rest)]
		}
	}
	return least
}

// A name that the shim reads, or that Nix hands to it, is one that the program knows, and the other way round.
func TestBothSidesHaveTheSameWords(t *testing.T) {
	var shim string
	for _, name := range []string{"core.bash", "fixupElf/fixupElf.bash", "fixupElf/package.nix", "autoPatchelf.bash", "hooks.nix", "dropIn/removeStubsFromRunpathHook.bash"} {
		text, err := os.ReadFile("../../../hooks/" + name)
		if err != nil {
			t.Fatal(err)
		}
		shim += string(text)
	}
	page, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var sources string
	for _, name := range []string{"build.go", "moments.go", "functions.go", "answers.go", "command.go", "stdenv.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sources += string(text)
	}
	for _, key := range []string{"program", "tool", "settings", "link", "compat", "compat-unknown", "stubs-compat", "gpus", "bintools", "autoPatchelf", "notes", "stands-for", "entry", "off", "elf"} {
		if !regexp.MustCompile(`[("]` + key + `=`).MatchString(shim) {
			t.Errorf("no hook brings %s=", key)
		}
		if !strings.Contains(sources, `("`+key+`"`) {
			t.Errorf("the program does not read %s=", key)
		}
		if !strings.Contains(string(page), key+"=") {
			t.Errorf("doc.go does not tell of %s=", key)
		}
	}
	for _, word := range []string{"log ", "error ", "stubs ", "audited ", "offer", "notes", "status "} {
		if !regexp.MustCompile(`(?m)^        "?` + word + `["*)]`).MatchString(shim) {
			t.Errorf("the shim does not obey %q", word)
		}
		if !strings.Contains(sources, `("`+word) {
			t.Errorf("the program does not say %q", word)
		}
	}
}
