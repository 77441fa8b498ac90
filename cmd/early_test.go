package cmd_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What package early carries out before main, main carries out the same: output, exit status and files.
func TestEarlyIsAsMain(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command here: ", err)
	}
	program := filepath.Join(t.TempDir(), "runpath")
	tool(t, "go", "build", "-ldflags", "-X cuda-runpath/pkg/cli.Version=1.2.3", "-o", program, "./runpath")
	early := filepath.Dir(program)
	t.Chdir(t.TempDir())
	shared(t, "original.so", "-Wl,--enable-new-dtags,-rpath,/a:/cuda/stubs")
	original, err := os.ReadFile("original.so")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"autoAddDriverRunpath lib.so",
		"autoAddDriverRunpath lib.so other.so -v --json",
		"autoAddDriverRunpath --dry-run -- lib.so",
		"autoAddDriverRunpath -q lib.so",
		"autoAddDriverRunpath -vq lib.so",
		"autoAddDriverRunpath --when needed lib.so",
		"autoAddDriverRunpath --when never lib.so",
		"autoAddDriverRunpath",
		"autoAddDriverRunpath --nothing lib.so",
		"autoAddDriverRunpath --jobs x lib.so",
		"autoAddDriverRunpath missing.so",
		"autoAddDriverRunpath text link.so malformed.so",
		"autoAddDriverRunpath --malformed warn malformed.so",
		"autoAddDriverRunpath directory",
		"autoAddDriverRunpath --version",
		"autoAddDriverRunpath --version lib.so",
		"autoAddDriverRunpath --help",
		"stubReplace lib.so",
		"stubReplace --stub * lib.so",
		"addCudaCompatRunpath lib.so",
		"addCudaCompatRunpath --compat /compat --position last lib.so",
		"noRunpathAmbiguity lib.so",
		"runpath show lib.so",
		"runpath show --json lib.so text",
		"runpath set /opt/a:/opt/b lib.so",
		"runpath set /opt/a:/opt/b",
		"runpath add --first /opt/a lib.so",
		"runpath add /opt/a:/opt/b lib.so",
		"runpath remove lib.so",
		"runpath needed add libcuda.so.1 lib.so",
		"runpath soname set libx.so lib.so",
		"runpath edit --soname libx.so --set-execstack lib.so",
		"runpath edit lib.so",
		"runpath nothing lib.so",
		"runpath",
		"patchelf --set-rpath /opt/a lib.so",
		"patchelf --print-rpath lib.so other.so",
		"patchelf --print-soname text",
		"patchelf --version",
		"patchelf",
	} {
		t.Run(line, func(t *testing.T) {
			words := strings.Fields(line)
			run := func(name string, full bool) string {
				os.RemoveAll("d")
				os.Mkdir("d", 0o755)
				for name, data := range map[string][]byte{"lib.so": original, "other.so": original, "text": []byte("text"), "malformed.so": original[:100], "directory/lib.so": original} {
					os.MkdirAll(filepath.Dir("d/"+name), 0o755)
					if err := os.WriteFile("d/"+name, data, 0o755); err != nil {
						t.Fatal(err)
					}
				}
				os.Symlink("lib.so", "d/link.so")
				cmd := &exec.Cmd{Path: name, Args: words, Dir: "d"}
				var stdout, stderr bytes.Buffer
				cmd.Stdout, cmd.Stderr = &stdout, &stderr
				if full {
					f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
					if err != nil {
						t.Skip(err)
					}
					defer f.Close()
					cmd.Stdout = f
				}
				if err := cmd.Run(); cmd.ProcessState == nil {
					t.Fatal(err)
				}
				if err := os.Chdir("d"); err != nil {
					t.Fatal(err)
				}
				defer os.Chdir("..")
				return cmd.ProcessState.String() + "\n" + stdout.String() + stderr.String() + state(t)
			}
			main, err := exec.LookPath(words[0]) // this test, which does not import package early
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(program, filepath.Join(early, words[0])); err != nil && !os.IsExist(err) {
				t.Fatal(err)
			}
			for _, full := range []bool{false, true} {
				if want, got := run(main, full), run(filepath.Join(early, words[0]), full); got != want {
					t.Errorf("stdout is full: %v\nearly: %s\nmain: %s", full, got, want)
				}
			}
		})
	}
}
