package cmd_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A command offers only flags that it obeys: each flag in its --help changes what it prints, does or answers, on files
// where there is something to change. D stands for the working directory.
func TestEveryFlagIsObeyed(t *testing.T) {
	t.Chdir(t.TempDir())
	d, _ := os.Getwd()
	library(t, "x/libx.so.1", "libx.so.1", "")
	library(t, "y/libx.so.1", "libx.so.1", "", "-Wl,--defsym=other=1")
	library(t, "y/libother.so.1", "libother.so.1", "")
	library(t, "x/libother.so.1", "libother.so.1", "", "-Wl,--defsym=other=1")
	library(t, "cuda/compat/libcuda.so.1", "libcuda.so.1", "")
	library(t, "stubs/libcuda.so", "libcuda.so.1", "")
	library(t, "lib.so", "", "D/x:D/y:/opt/fakes:D/stubs::D/x/:/run/opengl-driver/lib:D/cuda/compat", "x/libx.so.1", "stubs/libcuda.so", "-Wl,-z,execstack")
	library(t, "plain.so", "", "/a")
	tool(t, "runpath", "set", "-q", "--keep-empty", strings.ReplaceAll("D/x:D/y:/opt/fakes:D/stubs::D/x/:/run/opengl-driver/lib:D/cuda/compat", "D", d), "lib.so")
	os.Mkdir("more", 0o755)
	os.WriteFile("more/text", []byte("text"), 0o644)
	os.WriteFile("broken.so", []byte("\x7fELF"), 0o644)
	os.Mkdir("pristine", 0o755)
	files := []string{"lib.so", "plain.so", "broken.so"}
	for _, f := range files {
		b, _ := os.ReadFile(f)
		os.WriteFile("pristine/"+f, b, 0o644)
	}

	with := map[string][]string{
		"stub": {"--stub", "fakes"}, "offer": {"--offer", "out"}, "driver-link": {"--driver-link", "/z"}, "compat": {"--compat", "D/x"},
		"position": {"--position", "last"}, "force-rpath": {"--force-rpath"}, "keep-empty": {"--keep-empty"}, "dedupe": {"--dedupe"},
		"dry-run": {"--dry-run"}, "json": {"--json"}, "verbose": {"-v"}, "quiet": {"-q"}, "when": {"--when", "needed"},
		"malformed": {"--malformed", "warn"}, "ignore": {"--ignore", "libx.so.1"}, "strict": {"--strict"}, "first": {"--first"},
		"entry": {"--entry", "/opt/fakes"}, "tool": {"--tool", "autoAddDriverRunpath"},
		"nix-build": {"--nix-build"}, "copy": {"--copy"}, "clear-execstack": {"--clear-execstack"}, "root": {"--root", "D/"},
		"version": nil, "help": nil,
		"jobs": nil, // a run with another number of files at once must not differ
	}
	flag := regexp.MustCompile(`(?m)^   --([a-z-]+)`)
	all := []string{"--tool", "stubReplace", "--tool", "autoAddDriverRunpath", "--tool", "addCudaCompatRunpath"}
	for _, base := range [][]string{
		{"stubReplace"}, {"autoAddDriverRunpath"}, {"addCudaCompatRunpath", "--compat", "D/cuda/compat"}, {"noRunpathAmbiguity"},
		{"runpath", "show"}, {"runpath", "set", "/b:D/x::/b"}, {"runpath", "add", "/a"}, {"runpath", "remove", "--entry", "D/y"},
		slices.Concat([]string{"runpath", "normalize"}, all, []string{"--compat", "D/cuda/compat"}),
	} {
		name := strings.Join(base[:min(2, len(base))], " ")
		command := base[:1]
		if base[0] == "runpath" {
			command = base[:2]
		}
		help := tool(t, command[0], append(slices.Clone(command[1:]), "--help")...)
		run := func(malformed bool, extra ...string) string {
			for _, f := range files {
				b, _ := os.ReadFile("pristine/" + f)
				os.WriteFile(f, b, 0o644)
			}
			os.RemoveAll("out")
			args := slices.Concat(base[1:], extra, files[:2], []string{"more"})
			if malformed {
				args = append(args, "broken.so")
			}
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "D/", d+"/")
			}
			cmd := exec.Command(base[0], args...)
			before, _ := os.Stat("lib.so")
			out, _ := cmd.CombinedOutput()
			after, _ := os.Stat("lib.so")
			return fmt.Sprintf("%s\nstatus %d, the same file: %v\n%s", out, cmd.ProcessState.ExitCode(), os.SameFile(before, after), state(t))
		}
		flags := flag.FindAllStringSubmatch(help, -1)
		if len(flags) < 3 {
			t.Errorf("%s --help lists %d flags", name, len(flags))
		}
		for _, m := range flags {
			extra, known := with[m[1]]
			switch {
			case !known:
				t.Errorf("%s has a flag --%s, and this test does not know what it changes", name, m[1])
			case extra == nil, m[1] == "compat" && slices.Contains(base, "--compat"), m[1] == "tool":
			case m[1] == "entry" && slices.Contains(base, "--entry"):
			default:
				malformed := m[1] == "malformed"
				if given := run(malformed, extra...); given == run(malformed) {
					t.Errorf("%s %s changes nothing:\n%s", name, strings.Join(extra, " "), given)
				}
			}
		}
	}
}

// state is what there is in the working directory.
func state(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			fmt.Fprintln(&b, path)
			return err
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(&b, "%s %x\n", path, sha256.Sum256(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
