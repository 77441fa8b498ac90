package cmd_test

import (
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/remedy"
	"cuda-runpath/tests/tinyelf"
)

// hostileNames are names of files that a shell, a terminal, printf, Nix or a command line could read as something else.
var hostileNames = []string{
	"$(touch PWNED)", "`touch PWNED`", "a;touch PWNED", "a|touch PWNED", "a&touch PWNED", "a&&touch PWNED", "a\ntouch PWNED\n", "\n", "a\n\n", "a\nb'c\\'",
	"';touch PWNED;'", "\";touch PWNED;\"", "'\n;touch PWNED;'", "\\';touch PWNED;\\'", "\x01';touch PWNED;'", "\x01$(touch PWNED)", "\x01`touch PWNED`\n", "%s\x01%n", "\\n\x01", "\x01777",
	"-x", "--", "--help", "-\x01", "+x", "~", "~root", "*", "?", "[a]", "{a,b}", "#a", "!!", "a!b", "^a^b", "=ls", "a=b", "$HOME", "${PATH}", "$a\r`b`\"\t\xe2\x82", "a b", " ", "''", "'", "\"", "\\",
	">PWNED", "<a", "(a)", "\x1b[31mred", "\u009b0m", "\u202egnp", "\u2028", "\x7f", "\xff\xfe", "${builtins.abort \"x\"}", "''${x}''", "é", "libü.so.1",
}

// everywhere are those of them that the commands are given: one of each kind, for what quotes a name is one function.
var everywhere = []string{
	"$(touch PWNED)", "a\ntouch PWNED\n", "';touch PWNED;'", "\\';touch PWNED;\\'", "\x01`touch PWNED`\n", "%s\x01%n", "-x", "~", "*", "=ls",
	"$a\r`b`\"\t\xe2\x82", " ", "\x1b[31mred", "\u202egnp", "\xff\xfe", "${builtins.abort \"x\"}", "''${x}''",
}

// A name in a remedy is a name to every shell: each command that is printed has the words that the document has, in dash and in
// bash, on one line that no terminal obeys; and whatever of a remedy is pasted, nothing of a name is run.
func TestRemediesQuoteHostileNames(t *testing.T) {
	long(t)
	for _, name := range everywhere {
		if !slices.Contains(hostileNames, name) {
			t.Fatalf("%q is none of the names", name)
		}
	}
	shells := []string{"bash", "dash"}
	programs := t.TempDir()
	if at, err := exec.LookPath("touch"); err == nil {
		os.Symlink(at, filepath.Join(programs, "touch"))
	}
	// The tools are functions that note what they are given, each word with a NUL behind it. A shell takes one text after the other,
	// each in a directory and a subshell of its own.
	const taken = `for tool in runpath stubReplace autoAddDriverRunpath addCudaCompatRunpath noRunpathAmbiguity autoPatchelf hostDriver substituteInPlace ln sudo; do
		eval "$tool() { for a in $tool \"\$@\"; do printf '%s\\0' \"\$a\" >>\"\$top/called\$i\"; done; }"
	done
	top=$PWD i=0
	while cd "$top/$i" 2>/dev/null; do (. ../text$i) >../said$i 2>&1; i=$((i + 1)); done`
	type judge func(t *testing.T, shell, called string)
	var texts []string
	judges := map[string][]judge{} // by text
	// read lets the shells read a text, once, when run is called. In the place of Nix's expression stands a path.
	read := func(text string, judged judge) {
		text = strings.ReplaceAll(text, "${addDriverRunpath.driverLink}", "/link")
		if judges[text] == nil {
			texts = append(texts, text)
		}
		judges[text] = append(judges[text], judged)
	}
	run := func(t *testing.T) {
		t.Helper()
		for _, shell := range shells {
			d := t.TempDir()
			for i, text := range texts {
				if err := errors.Join(os.Mkdir(fmt.Sprintf("%s/%d", d, i), 0o755), os.WriteFile(fmt.Sprintf("%s/text%d", d, i), []byte(text+"\n"), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command(shell, "-c", taken)
			cmd.Dir, cmd.Env = d, []string{"PATH=" + programs, "HOME=/nowhere"}
			if _, err := cmd.CombinedOutput(); errors.Is(err, exec.ErrNotFound) {
				t.Skip(err)
			}
			for i, text := range texts {
				said, err := os.ReadFile(fmt.Sprintf("%s/said%d", d, i))
				if err != nil {
					t.Errorf("%s did not come to %s", shell, text)
				}
				for _, name := range []string{"PWNED", "PWNED'", "PWNED\""} {
					if _, err := os.Lstat(fmt.Sprintf("%s/%d/%s", d, i, name)); err == nil {
						t.Errorf("%s runs what a name says: %s\n%s", shell, text, said)
					}
				}
				called, _ := os.ReadFile(fmt.Sprintf("%s/called%d", d, i))
				for _, judged := range judges[text] {
					judged(t, shell, string(called))
				}
			}
		}
		texts = nil
		clear(judges)
	}
	followed := map[string]int{} // how often, by the first words of a command
	check := func(t *testing.T, said string, r remedy.Remedy) {
		t.Helper()
		if !remedy.Seen(r.Whole()) {
			t.Errorf("%s: not seen: %q", said, r.Whole())
		}
		if r.Advice != "" {
			read(r.Whole(), func(*testing.T, string, string) {})
		}
		if r.Command != nil {
			line := remedy.Quote(r.Command...)
			if r.Fix != line {
				t.Errorf("%s: printed is %q, but the command is %q", said, r.Fix, line)
			}
			want := strings.Join(r.Command, "\x00") + "\x00"
			read(line, func(t *testing.T, shell, called string) {
				if called != want {
					t.Errorf("%s: %s reads %s as %q, not %q", said, shell, line, called, want)
				}
			})
			followed[strings.Join(r.Command[:min(2, len(r.Command)-1)], " ")] += len(shells)
		}
		if _, line, ok := strings.Cut(r.Whole(), "substituteInPlace "); ok {
			read("substituteInPlace "+line, func(t *testing.T, shell, called string) {
				if strings.Count(called, "\x00") < 5 {
					t.Errorf("%s: %s reads %s as %q", said, shell, line, called)
				}
			})
			if rest := strings.ReplaceAll(line, "${addDriverRunpath.driverLink}", ""); strings.Contains(rest, "''") || strings.Contains(rest, "${") {
				t.Errorf("%s: Nix reads %s otherwise", said, line)
			}
			followed["substituteInPlace"]++
		}
	}
	// remediesIn finds the remedies of a document, wherever they are in it.
	var remediesIn func(v any) []remedy.Remedy
	remediesIn = func(v any) (all []remedy.Remedy) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				all = append(all, remediesIn(e)...)
			}
		case map[string]any:
			fix, _ := v["fix"].(string)
			if advice, _ := v["advice"].(string); fix+advice != "" {
				r := remedy.Remedy{Fix: fix, Advice: advice}
				words, _ := v["command"].([]any)
				raw, _ := v["command_base64"].([]any)
				for i, w := range words {
					if len(raw) > i && raw[i] != nil {
						continue
					}
					r.Command = append(r.Command, w.(string))
				}
				all = append(all, r)
			}
			for _, e := range v {
				all = append(all, remediesIn(e)...)
			}
		}
		return all
	}
	library := func(path string, strs ...tinyelf.Entry) {
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, tinyelf.Object{Strings: strs}.Bytes(), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range hostileNames {
		check(t, "Quote", remedy.Remedy{Fix: remedy.Quote("runpath", "edit", name, "./"+name), Command: []string{"runpath", "edit", name, "./" + name}})
	}
	run(t)
	clear(followed)
	for i, name := range everywhere {
		t.Run(fmt.Sprintf("%d %q", i, name), func(t *testing.T) {
			t.Chdir(t.TempDir())
			d, _ := os.Getwd()
			if strings.Contains(name, "/") || os.Mkdir(name, 0o755) != nil {
				t.Skip("no name of a file here")
			}
			entry := strings.ReplaceAll(name, ":", "")
			library(name+"/libhz.so.1", tinyelf.Entry{Tag: elf.DT_SONAME, Str: "libhz.so.1"})
			library("stubs/libcuda.so.1", tinyelf.Entry{Tag: elf.DT_SONAME, Str: "libcuda.so.1"})
			needs := tinyelf.Entry{Tag: elf.DT_NEEDED, Str: "libhz.so.1"}
			library(name+"/"+name, needs, tinyelf.Entry{Tag: elf.DT_NEEDED, Str: "libcuda.so.1"}, tinyelf.Entry{Tag: elf.DT_NEEDED, Str: name + "/libhz.so.1"},
				tinyelf.Entry{Tag: elf.DT_RUNPATH, Str: entry + "/rel:$FOO" + entry + ":/build/" + entry + ":/opt/" + entry + "/stubs::" + d + "/gone/" + entry + ":/x/" + entry + ";/y:'/q" + entry + "'"})
			library(name+"/two", needs, tinyelf.Entry{Tag: elf.DT_NEEDED, Str: "lib" + name + ".so"}, tinyelf.Entry{Tag: elf.DT_RUNPATH, Str: d + "/" + entry + ":" + d + "/" + entry + "/:" + d + "/stubs"})
			os.WriteFile(name+"/"+name+".py", []byte("import ctypes\nctypes.CDLL('libcuda.so.1')\nx='"+name+"'; ctypes.CDLL('libcuda.so.1')\n"), 0o644)
			os.WriteFile("./"+name+".py", []byte("import ctypes\nctypes.CDLL(\"libcuda.so.1\")\n"), 0o644)
			file, two := "./"+name+"/"+name, "./"+name+"/two"
			for _, line := range [][]string{
				{"runpath", "audit", "--json", "."}, {"runpath", "audit", "--json", "--stub", name, "--driver-link", "/" + entry, "."}, {"noRunpathAmbiguity", "--json", "."},
				{"noRunpathAmbiguity", "--nix", "--json", "."}, {"runpath", "explain", "--json", file, two}, {"hostDriver", "doctor", "--json", file},
				{"hostDriver", "doctor", "--json", two}, {"autoPatchelf", "--dry-run", "--json", "."},
			} {
				out := onlyStdout(line...)
				var doc any
				if err := json.Unmarshal(out, &doc); err != nil {
					if len(out) > 0 {
						t.Errorf("%q: %v: %s", line, err, out)
					}
					continue
				}
				for _, r := range remediesIn(doc) {
					check(t, fmt.Sprintf("%q", line[:2]), r)
				}
			}
			// The same as text: what stands on a line of its own is a command, and the rest is not to be run either.
			for _, line := range [][]string{
				{"runpath", "audit", "-v", "."}, {"noRunpathAmbiguity", "."}, {"runpath", "explain", file, two}, {"hostDriver", "doctor", file}, {"runpath", "scripts", "--substitute", "."},
			} {
				for text := range strings.Lines(string(onlyStdout(line...))) {
					text = strings.TrimSuffix(text, "\n")
					if !remedy.Seen(text) {
						t.Errorf("%q: not seen: %q", line, text)
					}
					words, command := strings.CutPrefix(text, "    ")
					if line[1] == "explain" || !command && !strings.HasPrefix(words, "substituteInPlace ") || strings.HasPrefix(words, " ") || strings.HasPrefix(words, "#") {
						continue
					}
					read(words, func(t *testing.T, shell, called string) {
						if called == "" {
							t.Errorf("%q: %s runs nothing: %s", line, shell, words)
						}
					})
					followed["text of "+line[0]+" "+line[1]]++
				}
			}
			run(t)
		})
	}
	t.Log(followed)
	for _, what := range []string{"runpath edit", "runpath normalize", "stubReplace", "runpath scripts", "runpath add", "autoAddDriverRunpath", "substituteInPlace", "text of runpath audit", "text of runpath scripts"} {
		if followed[what] < 10 && !slices.Contains([]string{"autoAddDriverRunpath"}, what) {
			t.Errorf("%s was followed %d times", what, followed[what])
		}
	}
}
