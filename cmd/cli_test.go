// Package cmd_test runs the binaries as a user does. Each file in testdata is a
// script of commands and what they answer; read them as a manual.
package cmd_test

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/cli/command"
	"cuda-runpath/pkg/cli/hostdriver"
	"cuda-runpath/pkg/cli/programs"
	"cuda-runpath/pkg/cli/urfave"
	"cuda-runpath/pkg/host/run"
	"cuda-runpath/tests/hosttest"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata")

// The test binary is also every command: testscript puts copies of it under the
// commands' names first in PATH, so that coverage counts what they do.
func TestMain(m *testing.M) {
	run.Enter() // where hostDriver run of an ordinary user started this binary once more, in a namespace
	command.Version = "1.2.3"
	commands := map[string]func(){"hostDriver": documented("hostDriver", hostdriver.Run)}
	commands["measured"] = measured
	for _, p := range programs.All() {
		commands[p.Name] = documented(p.Name, func(args []string, stdout, stderr io.Writer) int {
			return programs.Run(args, stdout, stderr, urfave.Run)
		})
	}
	unix.Umask(0o022) // the modes in testdata are those of files made with it
	testscript.Main(tested{m}, commands)
}

func TestScripts(t *testing.T) {
	if !strings.Contains(flag.Lookup("test.run").Value.String()+flag.Lookup("test.skip").Value.String(), "/") { // all of them
		t.Cleanup(func() { everySchemaHasADocument(t) })
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Setenv(schemaLog, os.Getenv(schemaLog))
			// Where root has no other place that others can enter, hostDriver run writes to /var/cache.
			env.Setenv("XDG_CACHE_HOME", filepath.Join(env.WorkDir, ".cache"))
			return errors.Join(os.Chmod(filepath.Dir(env.WorkDir), 0o755), os.Chmod(env.WorkDir, 0o755))
		},
		UpdateScripts: *update,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"device": func(ts *testscript.TestScript, _ bool, args []string) { ts.Check(hosttest.Node(ts.MkAbs(args[0]))) },
		},
		Condition: func(cond string) (bool, error) {
			if path, ok := strings.CutPrefix(cond, "exists:"); ok {
				_, err := os.Stat(path)
				return err == nil, nil
			}
			if cond == "devices" {
				return hosttest.Node(filepath.Join(t.TempDir(), "node")) == nil, nil
			}
			if cond == "store" {
				return bindsStore(), nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
	})
}

// long skips a test that takes more than ten seconds of processor time where -short asks for less, as tests/run --quick does.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long")
	}
}

// shared builds a shared library with a run path, from nothing.
func shared(t *testing.T, path string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler: ", err)
	}
	if err := compile(path, append([]string{"-shared", "-nostdlib", "-xc", "/dev/null"}, args...)...); err != nil {
		t.Fatal(err)
	}
}

func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, status := combined(append([]string{name}, args...)...)
	if status != 0 {
		t.Fatalf("%s %q: status %d: %s", name, args, status, out)
	}
	return out
}

// The three editing tools in all six orders, once or twice, leave one run path.
func TestOrderOfTheToolsDoesNotMatter(t *testing.T) {
	t.Chdir(t.TempDir())
	os.MkdirAll("cuda/compat", 0o755)
	shared(t, "cuda/compat/libcuda.so", "-Wl,-soname,libcuda.so.1")
	os.Rename("cuda/compat/libcuda.so", "cuda/compat/libcuda.so.1")
	wd, _ := os.Getwd()
	compat := wd + "/cuda/compat"
	const stub, driver, compatTool = "stubReplace", "autoAddDriverRunpath", "addCudaCompatRunpath"
	orders := [][]string{
		{stub, driver, compatTool}, {stub, compatTool, driver}, {driver, stub, compatTool},
		{driver, compatTool, stub}, {compatTool, stub, driver}, {compatTool, driver, stub},
		{compatTool, compatTool, driver, driver, stub, stub}, {driver, stub, compatTool, driver, stub, compatTool},
	}
	shared(t, "original.so", "-Wl,--enable-new-dtags")
	original, err := os.ReadFile("original.so")
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range []string{"", "/a", "/a:/cuda/stubs:$ORIGIN/../lib::/a:", "/run/opengl-driver/lib/:/a:" + compat, ":"} {
		for _, settings := range [][]string{nil, {"--position", "last"}, {"--dedupe", "--force-rpath"}, {"--keep-empty"}} {
			results := map[string]string{}
			var size int64
			for _, order := range orders {
				if err := os.WriteFile("lib.so", original, 0o755); err != nil {
					t.Fatal(err)
				}
				if list != "" {
					tool(t, "runpath", "set", "--keep-empty", list, "lib.so")
				}
				for _, name := range order {
					tool(t, name, append(slices.Clone(settings), "--compat", compat, "lib.so")...)
				}
				results[tool(t, "runpath", "show", "lib.so")] = strings.Join(order, " ")
				if st, _ := os.Stat("lib.so"); size == 0 {
					size = st.Size()
				} else if st.Size() > size+4096 {
					t.Errorf("%q %v: %v leaves %d bytes, others %d", list, settings, order, st.Size(), size)
				}
			}
			if len(results) != 1 {
				t.Errorf("%q %v: %d results: %q", list, settings, len(results), results)
			}
			for shown := range results {
				if !strings.Contains(shown, compat) || !strings.Contains(shown, "/run/opengl-driver/lib\n") || strings.Contains(shown, "stubs") {
					t.Errorf("%q %v: %s", list, settings, shown)
				}
			}
		}
	}
}

// Interrupted, a tool finishes the files that it has begun, leaves the others
// alone and says how far it came.
func TestInterrupt(t *testing.T) {
	t.Chdir(t.TempDir())
	shared(t, "original.so", "-Wl,--enable-new-dtags,-rpath,/a")
	original, err := os.ReadFile("original.so")
	if err != nil {
		t.Fatal(err)
	}
	const files = 3000
	for range 5 {
		os.RemoveAll("d")
		os.Mkdir("d", 0o755)
		for i := range files {
			if err := os.WriteFile(filepath.Join("d", strconv.Itoa(i)), original, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command("autoAddDriverRunpath", "--jobs", "1", "d")
		stderr, _ := cmd.StderrPipe()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(stderr)
		lines.Scan() // the first file is done
		cmd.Process.Signal(os.Interrupt)
		last := ""
		for lines.Scan() {
			last = lines.Text()
		}
		cmd.Wait()
		if cmd.ProcessState.ExitCode() == 0 {
			continue // it was faster than the signal
		}
		if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(last, "stopped (") {
			t.Fatalf("%v: %s", cmd.ProcessState, last)
		}
		edited := 0
		for i := range files {
			switch data, _ := os.ReadFile(filepath.Join("d", strconv.Itoa(i))); {
			case bytes.Contains(data, []byte("\x00/run/opengl-driver/lib:/a\x00")):
				edited++
			case !bytes.Equal(data, original):
				t.Errorf("file %d is neither old nor new", i)
			}
		}
		if want := fmt.Sprintf("after %d files", edited); !strings.Contains(last, want) {
			t.Errorf("%d files are edited: %s", edited, last)
		}
		return
	}
	t.Error("5 runs ended as if there had been no signal")
}

// A run that is stopped has not seen all that is accepted: the baseline stays.
func TestInterruptedBaseline(t *testing.T) {
	long(t)
	t.Chdir(t.TempDir())
	shared(t, "original.so", "-Wl,--enable-new-dtags,-rpath,/a:")
	original, err := os.ReadFile("original.so")
	if err != nil {
		t.Fatal(err)
	}
	os.Mkdir("d", 0o755)
	for i := range 1000 {
		if err := os.WriteFile(filepath.Join("d", strconv.Itoa(i)), original, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	update := func(before time.Duration) (status int) {
		cmd := exec.Command("runpath", "audit", "-q", "--jobs", "1", "--baseline", "accepted", "--update-baseline", "d")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if before > 0 {
			time.Sleep(before)
			cmd.Process.Signal(os.Interrupt)
		}
		cmd.Wait()
		return cmd.ProcessState.ExitCode()
	}
	start := time.Now()
	if status := update(0); status != 0 {
		t.Fatalf("status %d", status)
	}
	whole := time.Since(start)
	want, _ := os.ReadFile("accepted")
	if n := bytes.Count(want, []byte("empty-entry\t")); n != 1000 {
		t.Fatalf("%d findings are accepted", n)
	}
	for part := 1; part <= 16; part++ {
		if update(whole*time.Duration(part)/20) == 0 {
			continue // it was faster than the signal
		}
		if got, _ := os.ReadFile("accepted"); !bytes.Equal(got, want) {
			t.Fatalf("of %d lines %d are left", bytes.Count(want, []byte("\n")), bytes.Count(got, []byte("\n")))
		}
	}
}

// Where the reader of the log goes away, as in "tool DIR 2>&1 | head -1", the rest
// of the files is done all the same.
func TestReaderThatGoesAway(t *testing.T) {
	t.Chdir(t.TempDir())
	shared(t, "original.so", "-Wl,--enable-new-dtags,-rpath,/a")
	original, err := os.ReadFile("original.so")
	if err != nil {
		t.Fatal(err)
	}
	os.Mkdir("d", 0o755)
	const files = 300
	for i := range files {
		if err := os.WriteFile(filepath.Join("d", strconv.Itoa(i)), original, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("autoAddDriverRunpath", "--jobs", "1", "d")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	r.Close()
	err = cmd.Run()
	w.Close()
	if cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("nobody was told of the edits, and the status is: %v", err)
	}
	for i := range files {
		if data, _ := os.ReadFile(filepath.Join("d", strconv.Itoa(i))); !bytes.Contains(data, []byte("\x00/run/opengl-driver/lib:/a\x00")) {
			t.Fatalf("file %d was not edited", i)
		}
	}
}

// Whatever the files are called and hold, the JSON document is one, and the log has a line for each file.
func TestAnyNameIsReported(t *testing.T) {
	t.Chdir(t.TempDir())
	os.Mkdir("d", 0o755)
	names := []string{"a\nb", `"quoted"`, "\x1b[31m", "\xff\xfe", "-n", "<&>", "ü", "100%s"}
	for _, name := range names {
		shared(t, "d/lib.so", "-Wl,--enable-new-dtags,-rpath,/\xff\x1b:/a%sb")
		if err := os.Rename("d/lib.so", "d/"+name); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("autoAddDriverRunpath", "--json", "d")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	var document struct {
		Version int
		Files   []struct {
			Path   string
			Bytes  []byte `json:"path_base64"`
			Action string
		}
	}
	if err := json.Unmarshal(stdout.Bytes(), &document); err != nil {
		t.Fatalf("%v: %s", err, stdout.Bytes())
	}
	var got []string
	for _, file := range document.Files {
		if file.Action != "edited" {
			t.Errorf("%q: %s", file.Path, file.Action)
		}
		if file.Bytes != nil {
			file.Path = string(file.Bytes)
		}
		got = append(got, strings.TrimPrefix(file.Path, "d/"))
	}
	slices.Sort(names)
	if !slices.Equal(got, names) {
		t.Errorf("reported are %q", got)
	}
	if lines := strings.Split(strings.TrimSuffix(stderr.String(), "\n"), "\n"); len(lines) != len(names) {
		t.Errorf("%d lines for %d files: %q", len(lines), len(names), lines)
	}
	if strings.ContainsFunc(strings.ReplaceAll(stderr.String(), "\n", ""), func(r rune) bool { return !strconv.IsPrint(r) || r == '\ufffd' }) {
		t.Errorf("not fit for a terminal: %q", stderr.String())
	}
}

// The loader ignores DT_RPATH where there is a DT_RUNPATH. Linkers write no such files any more, but they exist.
func TestBothTags(t *testing.T) {
	t.Chdir(t.TempDir())
	shared(t, "lib.so", "-Wl,--enable-new-dtags,-rpath,/run/opengl-driver/lib:/old")
	addShadowedRPath(t, "lib.so", len("/run/opengl-driver/lib:"))
	if shown := tool(t, "runpath", "show", "lib.so"); !strings.Contains(shown, "ignored      DT_RPATH /old\n") {
		t.Fatalf("the file has not both: %s", shown)
	}
	// In normal form but for the tag that does not count.
	said := tool(t, "autoAddDriverRunpath", "lib.so")
	if !strings.Contains(said, `warning: DT_RPATH "/old" is lost`) || !strings.Contains(said, "1 edited") {
		t.Error(said)
	}
	if n := strings.Count(said, "is lost"); n != 1 {
		t.Errorf("what is lost is said %d times: %s", n, said)
	}
	if shown := tool(t, "runpath", "show", "lib.so"); strings.Contains(shown, "ignored") || !strings.Contains(shown, "DT_RUNPATH   /run/opengl-driver/lib\n  DT_RUNPATH   /old\n") {
		t.Error(shown)
	}
	if said := tool(t, "autoAddDriverRunpath", "lib.so"); !strings.Contains(said, "0 edited, 1 unchanged") {
		t.Error(said)
	}
}

// addShadowedRPath turns the first DT_NULL of a library into a DT_RPATH whose string begins that many bytes into the DT_RUNPATH's.
func addShadowedRPath(t *testing.T, path string, into int) {
	t.Helper()
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	values, err := file.DynValue(elf.DT_RUNPATH)
	if err != nil || len(values) != 1 || file.Class != elf.ELFCLASS64 {
		t.Skip("not a 64-bit library with one DT_RUNPATH: ", values, err)
	}
	section := file.Section(".dynamic")
	data, err := section.Data()
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; ; at += 16 {
		if elf.DynTag(file.ByteOrder.Uint64(data[at:])) == elf.DT_NULL {
			file.ByteOrder.PutUint64(data[at:], uint64(elf.DT_RPATH))
			file.ByteOrder.PutUint64(data[at+8:], values[0]+uint64(into))
			break
		}
	}
	library, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer library.Close()
	if _, err := library.WriteAt(data, int64(section.Offset)); err != nil {
		t.Fatal(err)
	}
}
