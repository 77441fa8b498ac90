package cmd_test

import (
	"debug/elf"
	"encoding/json"
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
	for _, name := range everywhere {
		if !slices.Contains(hostileNames, name) {
			t.Fatalf("%q is none of the names", name)
		}
	}
	shells := []string{"bash", "dash"}
	fakes := t.TempDir() // programs that note what they are given
	for _, name := range []string{"runpath", "stubReplace", "autoAddDriverRunpath", "addCudaCompatRunpath", "noRunpathAmbiguity", "autoPatchelf", "hostDriver", "substituteInPlace", "ln", "sudo"} {
		text := "#!/bin/sh\nfor a in " + name + " \"$@\"; do printf '%s\\0' \"$a\" >>\"$ARGUMENTS\"; done\n"
		if err := os.WriteFile(filepath.Join(fakes, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"touch", "printf", "true"} {
		if at, err := exec.LookPath(name); err == nil {
			os.Symlink(at, filepath.Join(fakes, name))
		}
	}
	known := map[[2]string]string{}
	// run is what a shell makes of a text: what was called, each word with a NUL behind it. In the place of Nix's expression stands
	// a path.
	run := func(t *testing.T, shell, text string) (said string) {
		t.Helper()
		text = strings.ReplaceAll(text, "${addDriverRunpath.driverLink}", "/link")
		if said, ok := known[[2]string{shell, text}]; ok {
			return said
		}
		defer func() { known[[2]string{shell, text}] = said }()
		d := t.TempDir()
		cmd := exec.Command(shell, "-c", text)
		cmd.Dir, cmd.Env = d, []string{"PATH=" + fakes, "ARGUMENTS=" + d + "/arguments", "HOME=/nowhere"}
		out, err := cmd.CombinedOutput()
		if err != nil && strings.Contains(err.Error(), "executable file not found") {
			t.Skip(err)
		}
		for _, name := range []string{"PWNED", "PWNED'", "PWNED\""} {
			if _, err := os.Lstat(filepath.Join(d, name)); err == nil {
				t.Errorf("%s runs what a name says: %s\n%s", shell, text, out)
			}
		}
		called, _ := os.ReadFile(filepath.Join(d, "arguments"))
		return string(called)
	}
	followed := map[string]int{} // how often, by the first words of a command
	check := func(t *testing.T, said string, r remedy.Remedy) {
		t.Helper()
		if !remedy.Seen(r.Whole()) {
			t.Errorf("%s: not seen: %q", said, r.Whole())
		}
		for _, shell := range shells {
			if r.Advice != "" {
				run(t, shell, r.Whole())
			}
			if r.Command == nil {
				continue
			}
			line := remedy.Quote(r.Command...)
			if r.Fix != line {
				t.Errorf("%s: printed is %q, but the command is %q", said, r.Fix, line)
			}
			if got, want := run(t, shell, line), strings.Join(r.Command, "\x00")+"\x00"; got != want {
				t.Errorf("%s: %s reads %s as %q, not %q", said, shell, line, got, want)
			}
			followed[strings.Join(r.Command[:min(2, len(r.Command)-1)], " ")]++
		}
		if _, line, ok := strings.Cut(r.Whole(), "substituteInPlace "); ok {
			for _, shell := range shells {
				if got := run(t, shell, "substituteInPlace "+line); strings.Count(got, "\x00") < 5 {
					t.Errorf("%s: %s reads %s as %q", said, shell, line, got)
				}
			}
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
				cmd := exec.Command(line[0], line[1:]...)
				out, _ := cmd.Output()
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
				out, _ := exec.Command(line[0], line[1:]...).Output()
				for text := range strings.Lines(string(out)) {
					text = strings.TrimSuffix(text, "\n")
					if !remedy.Seen(text) {
						t.Errorf("%q: not seen: %q", line, text)
					}
					words, command := strings.CutPrefix(text, "    ")
					if line[1] == "explain" || !command && !strings.HasPrefix(words, "substituteInPlace ") || strings.HasPrefix(words, " ") || strings.HasPrefix(words, "#") {
						continue
					}
					for _, shell := range shells {
						if got := run(t, shell, words); got == "" {
							t.Errorf("%q: %s runs nothing: %s", line, shell, words)
						}
					}
					followed["text of "+line[0]+" "+line[1]]++
				}
			}
		})
	}
	t.Log(followed)
	for _, what := range []string{"runpath edit", "runpath normalize", "stubReplace", "runpath scripts", "runpath add", "autoAddDriverRunpath", "substituteInPlace", "text of runpath audit", "text of runpath scripts"} {
		if followed[what] < 10 && !slices.Contains([]string{"autoAddDriverRunpath"}, what) {
			t.Errorf("%s was followed %d times", what, followed[what])
		}
	}
}
