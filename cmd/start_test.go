package cmd_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Packages start a tool once for each file, so what a start does is part of what a tool
// is. Time is not asserted; its causes are: what is linked in, what is computed before
// main, how many threads there are, which files are opened.

// shippedTags are those of nix/package.nix.
const shippedTags = "urfave_cli_no_docs"

// notLinked may not be in the program: what they compute before main, or the pages that
// they touch, every start pays for.
var notLinked = []string{
	"net", "net/http", "crypto/tls", "crypto/x509", "html/template", "testing", "encoding/gob", "encoding/xml", "go/ast",
	"crypto/rand", "math/big", // crypto/sha256 is what images are named by, and a start does not feel it
	"github.com/google/go-cmp/cmp", "github.com/cpuguy83/go-md2man/v2/md2man", "github.com/russross/blackfriday/v2",
	"github.com/rogpeppe/go-internal/testscript", "pgregory.net/rapid", "cuda-runpath/tests/tinyelf",
}

// Each command reads a file that it examines once, by strace's account; those that judge symbols read the symbols of a file for
// which every library was found a second time, as most files are never asked for them.
func TestFilesAreOpenedOnce(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("no strace here: ", err)
	}
	dir, _ := filepath.EvalSymlinks(t.TempDir())
	t.Chdir(dir)
	os.MkdirAll("tree/lib", 0o755)
	shared(t, "tree/lib/liba.so.1", "-Wl,-soname,liba.so.1")
	os.WriteFile("p.c", []byte("const char *name = \"libcuda.so.1\"; int main(void) { return !name; }"), 0o644)
	tool(t, "cc", "-o", "tree/prog", "p.c", "-Wl,--no-as-needed", "tree/lib/liba.so.1", "-Wl,--enable-new-dtags,-rpath,$ORIGIN/lib")
	for _, command := range [][]string{
		{"runpath", "audit", "tree"}, {"runpath", "audit", "--for", "9.0", "tree"}, {"runpath", "explain", "--for", "9.0", "tree/prog"}, {"hostDriver", "doctor", "tree/prog"},
		{"noRunpathAmbiguity", "tree/prog"},
	} {
		opens, out := opened(t, strace, command...)
		for _, file := range []string{dir + "/tree/prog", dir + "/tree/lib/liba.so.1"} {
			most := 2
			if command[1] == "explain" {
				most = 1
			}
			if (opens[file] < 1 || opens[file] > most) && (command[0] != "noRunpathAmbiguity" || strings.HasSuffix(file, "prog")) {
				t.Errorf("%q opens %s %d times\n%s", command, file, opens[file], out)
			}
		}
		program, _ := exec.LookPath(command[0])
		if built, _ := exec.Command("file", "-L", program).Output(); opens["/etc/ld.so.cache"] > 1 && !strings.Contains(string(built), "dynamically") {
			t.Errorf("%q opens ld.so.cache %d times", command, opens["/etc/ld.so.cache"])
		}
	}
}

// autoPatchelf opens a file that it changes to read it, to write it, and to look at it then.
func TestAutoPatchelfOpensAFileAsOftenAsItMust(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("no strace here: ", err)
	}
	dir, _ := filepath.EvalSymlinks(t.TempDir())
	t.Chdir(dir)
	os.MkdirAll("libs", 0o755)
	shared(t, "libs/libb.so.1", "-Wl,-soname,libb.so.1")
	for _, tree := range []string{"hand", "build"} {
		os.MkdirAll(tree, 0o755)
		shared(t, tree+"/liba.so.1", "-Wl,--no-as-needed,libs/libb.so.1")
	}
	for tree, more := range map[string][]string{"hand": {"--no-record"}, "build": {"--in-build", "--interpreter", "/lib64/ld-linux-x86-64.so.2"}} {
		opens, out := opened(t, strace, slices.Concat([]string{"autoPatchelf", "--libs", dir + "/libs", tree}, more)...)
		if n := opens[dir+"/"+tree+"/liba.so.1"]; n != map[string]int{"hand": 2, "build": 3}[tree] { // by hand a new file is written
			t.Errorf("a changed file is opened %d times (%s)\n%s", n, tree, out)
		}
		if n := opens[dir+"/libs/libb.so.1"]; n != 1 {
			t.Errorf("a library is opened %d times (%s)\n%s", n, tree, out)
		}
	}
}

// opened returns how often a command opens each file, O_PATH aside, and what it prints.
func opened(t *testing.T, strace string, command ...string) (map[string]int, []byte) {
	t.Helper()
	program, err := exec.LookPath(command[0])
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(strace, slices.Concat([]string{"-f", "-y", "-o", "log", "-e", "trace=open,openat,openat2", program}, command[1:])...)
	out, _ := cmd.CombinedOutput() // the status says what is found
	log, err := os.ReadFile("log")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	opens, begun := map[string]int{}, map[string]string{}
	for line := range strings.Lines(string(log)) {
		pid, _, _ := strings.Cut(line, " ")
		if strings.Contains(line, " <unfinished ...>") {
			begun[pid] = line
			continue
		}
		if strings.Contains(line, " resumed>") {
			line = begun[pid] + line
		}
		// O_PATH alone reads nothing; /etc/ld.so.cache is also opened where the tool is linked dynamically.
		if _, at, ok := strings.Cut(line, " = "); ok && !strings.Contains(line, "O_PATH") {
			_, at, _ = strings.Cut(at, "<")
			at, _, _ = strings.Cut(at, ">")
			opens[at]++
		}
	}
	return opens, out
}

func TestWhatEveryStartPaysFor(t *testing.T) {
	long(t)
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command here: ", err)
	}
	nix, err := os.ReadFile("../nix/package.nix")
	if err != nil || !strings.Contains(string(nix), `tags = [ "`+shippedTags+`" ];`) {
		t.Errorf("nix/package.nix does not have the tags %q (%v)", shippedTags, err)
	}
	deps := strings.Fields(tool(t, "go", "list", "-tags", shippedTags, "-deps", "./runpath"))
	for _, pkg := range notLinked {
		if slices.Contains(deps, pkg) {
			t.Errorf("%s is linked into cmd/runpath", pkg)
		}
	}
	if slices.Contains(strings.Fields(tool(t, "go", "list", "-tags", shippedTags, "-deps", "./hostDriver")), "cuda-runpath/pkg/cli/session") {
		t.Error("the commands that edit are linked into cmd/hostDriver, which each program is started with")
	}

	dir := t.TempDir()
	program := filepath.Join(dir, "autoAddDriverRunpath")
	t.Setenv("CGO_ENABLED", "0") // as nix/package.nix
	tool(t, "go", "build", "-tags", shippedTags, "-o", program, "./runpath")
	lib := filepath.Join(dir, "lib.so")
	shared(t, lib)
	tool(t, program, lib)

	if built := tool(t, "go", "version", "-m", program); !strings.Contains(built, "updatemaxprocs=0") {
		t.Errorf("a goroutine watches the number of processors:\n%s", built)
	}
	cmd := exec.Command(program, lib)
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, m := range regexp.MustCompile(`(?m)^init (\S+) @.* (\d+) bytes, (\d+) allocs$`).FindAllStringSubmatch(stderr.String(), -1) {
		size, _ := strconv.Atoi(m[2])
		allocs, _ := strconv.Atoi(m[3])
		total += allocs
		if strings.HasPrefix(m[1], "cuda-runpath/") && (allocs > 20 || size > 1000) {
			t.Errorf("%s computes before main (%d allocations, %d bytes): sync.OnceValue does it when it is asked for", m[1], allocs, size)
		}
	}
	// Go's library makes some 90 of them, urfave/cli with what it needs 70.
	if total == 0 || total > 300 {
		t.Errorf("%d allocations before main", total)
	}
	t.Run("one file", func(t *testing.T) {
		strace, err := exec.LookPath("strace")
		if err != nil {
			t.Skip("no strace here: ", err)
		}
		log := filepath.Join(dir, "log")
		trace := func() string {
			out := tool(t, strace, "-f", "-o", log, "-e", "trace=openat,newfstatat,readlinkat,getcwd,clone,clone3,epoll_create1", program, lib)
			if !strings.Contains(out, "1 unchanged") {
				t.Fatal(out)
			}
			calls, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			return string(calls)
		}
		threads, asked := 0, false
		for line := range strings.Lines(trace()) {
			switch {
			case strings.Contains(line, " clone(") || strings.Contains(line, " clone3("):
				threads++
			case strings.Contains(line, "epoll_create1"):
				t.Errorf("waits for files that are always ready: %s", line)
			case strings.Contains(line, `readlinkat(AT_FDCWD, "/proc/self/fd/`): // once: where the file is, which is not to be a store
				if asked = !asked; !asked {
					t.Errorf("asks again: %s", line)
				}
			case strings.Contains(line, "getcwd("), strings.Contains(line, "readlinkat("),
				strings.Contains(line, "newfstatat(") && !strings.Contains(line, lib):
				t.Errorf("looks at more than the file: %s", line)
			case strings.Contains(line, "openat("):
				// The file is opened from its directory, by whatever name that has by then. Go's own
				// start reads the processor quota and the size of a huge page.
				name := strings.Split(line, `"`)[1]
				if name != dir+"/" && name != filepath.Base(lib) && !strings.HasPrefix(name, "/sys/") && name != "/proc/self/cgroup" && name != "/proc/self/mountinfo" {
					t.Errorf("opens %s", name)
				}
			}
		}
		// An empty Go program has 3 or 4. On a busy machine Go's scheduler starts more at times, so the least of some runs counts.
		for range 20 {
			if threads <= 5 {
				return
			}
			threads = min(threads, strings.Count(trace(), " clone"))
		}
		t.Errorf("starts %d threads for one file", threads)
	})
}
