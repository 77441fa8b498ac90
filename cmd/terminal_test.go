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
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// screen is what a terminal is to show.
type screen struct {
	sync.Mutex
	text   []byte
	master *os.File
	done   chan struct{} // nobody has the terminal open any more
}

// atTerminal starts a command with stdin, stdout and stderr on a terminal of so many columns.
func atTerminal(t *testing.T, columns int, environment []string, words ...string) (*screen, *exec.Cmd) {
	t.Helper()
	// ptmx(4)
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals can be made here: ", err)
	}
	t.Cleanup(func() { master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Skip("no terminals can be made here: ", err)
	}
	side, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals can be made here: ", err)
	}
	if err := unix.IoctlSetWinsize(int(side.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: uint16(columns)}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(append(os.Environ(), "TERM=xterm", "NO_COLOR="), environment...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = side, side, side
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	side.Close()
	s := &screen{master: master, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		some := make([]byte, 4096)
		for {
			n, err := master.Read(some)
			s.Lock()
			s.text = append(s.text, some[:n]...)
			s.Unlock()
			if err != nil { // EIO at the end
				return
			}
		}
	}()
	return s, cmd
}

// shown returns what is shown by now.
func (s *screen) shown() string {
	s.Lock()
	defer s.Unlock()
	return strings.ReplaceAll(string(s.text), "\r\n", "\n")
}

// onTerminal returns what a command shows from its start to its end.
func onTerminal(t *testing.T, columns int, environment []string, words ...string) string {
	t.Helper()
	return onTerminalLater(t, columns, environment, words...)()
}

// onTerminalLater starts a command, and returns what waits for its end.
func onTerminalLater(t *testing.T, columns int, environment []string, words ...string) func() string {
	t.Helper()
	s, cmd := atTerminal(t, columns, environment, words...)
	return func() string {
		cmd.Wait() // the status says what is found
		<-s.done
		return s.shown()
	}
}

// A terminal shows in red what is wrong; nothing else that takes the output gets colours.
func TestColoursAreForTerminals(t *testing.T) {
	t.Chdir(t.TempDir())
	shared(t, "libgone.so", "-Wl,-soname,libgone.so")
	shared(t, "lib.so", "-Wl,--no-as-needed,libgone.so", "-Wl,--enable-new-dtags,-rpath,relative")
	os.Remove("libgone.so")
	tool(t, "runpath", "add", "--keep-empty", "-q", "", "lib.so")
	os.MkdirAll("stubs", 0o755)
	shared(t, "stubs/libcuda.so.1", "-Wl,-soname,libcuda.so.1")
	shared(t, "stubbed.so", "-Wl,--no-as-needed,stubs/libcuda.so.1", "-Wl,--enable-new-dtags,-rpath,$ORIGIN/stubs")
	os.Mkdir("root", 0o755)
	const red, yellow = `\x1b\[31m`, `\x1b\[33m` // as regular expressions
	for _, c := range []struct {
		command string
		says    string // a regular expression
	}{
		{"runpath explain lib.so", red + "not found"},
		{"runpath explain stubbed.so", red + "[^\x1b]*/stubs/libcuda.so.1\x1b"},
		{"runpath audit lib.so", red + "error" + `\x1b`},
		{"noRunpathAmbiguity --strict lib.so", red + "error" + `\x1b|` + yellow + "warning"},
		{"hostDriver doctor --root root", red + "BAD"},
		{"runpath show nothing.so", red + "no such file"},
		{"runpath shwo", red + ".*there is no command"},
		{"addCudaCompatRunpath --compat /nope lib.so", yellow + "warning"},
		{"hostDriver find --root root", red + ".*libcuda"},
	} {
		words := strings.Fields(c.command)
		if shown := onTerminal(t, 80, nil, words...); !regexp.MustCompile(c.says).MatchString(shown) {
			t.Errorf("%s shows %q on a terminal, not %q", c.command, shown, c.says)
		}
		for _, plain := range []string{"NO_COLOR=1", "TERM=dumb"} {
			if shown := onTerminal(t, 80, []string{plain}, words...); strings.Contains(shown, "\x1b") {
				t.Errorf("%s with %s: %q", c.command, plain, shown)
			}
		}
		if out, _ := exec.Command(words[0], words[1:]...).CombinedOutput(); strings.Contains(string(out), "\x1b") {
			t.Errorf("%s to a pipe: %q", c.command, out)
		}
	}
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*[a-zA-Z]")

// What is for reading, help and doctor's facts, is as wide as the terminal; a command that is to be copied is not torn.
func TestTextIsAsWideAsTheTerminal(t *testing.T) {
	t.Chdir(t.TempDir())
	os.Mkdir("root", 0o755)
	for _, command := range []string{"hostDriver doctor --root root", "runpath edit --help-all", "autoPatchelf --help"} {
		for _, columns := range []int{60, 100} {
			widest := 0
			for line := range strings.Lines(escapes.ReplaceAllString(onTerminal(t, columns, nil, strings.Fields(command)...), "")) {
				line = strings.TrimRight(line, "\n")
				if widest = max(widest, len([]rune(line))); len([]rune(line)) > columns && strings.Contains(strings.TrimSpace(line), " ") && !strings.Contains(line, "-> ") && !strings.HasPrefix(line, "   autoPatchelf ") && !strings.HasPrefix(line, "   runpath ") {
					t.Errorf("%s on %d columns: %s", command, columns, line)
				}
			}
			if widest < columns-15 {
				t.Errorf("%s on %d columns takes %d", command, columns, widest)
			}
		}
	}
}

// Whatever walks says on a terminal how far it is, once that has taken a second, in a line that goes away.
func TestProgressOfWhatWalks(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("no strace here: ", err)
	}
	t.Chdir(t.TempDir())
	commands := []string{
		"runpath show", "runpath add /x", "runpath edit --soname x", "runpath audit", "runpath gpu", "runpath thin --for 9.0", "runpath references", "runpath scripts",
		"noRunpathAmbiguity", "stubReplace", "autoPatchelf", "runpath manifest", "runpath explain",
	}
	wait := make([]func() string, len(commands)) // all at a time, each with a tree of its own: they only wait
	for i, command := range commands {
		tree := fmt.Sprint("tree", i)
		for _, dir := range []string{"0", "1"} {
			os.MkdirAll(filepath.Join(tree, dir), 0o755)
			shared(t, filepath.Join(tree, dir, "lib.so"))
		}
		words := strings.Fields(command)
		program, err := exec.LookPath(words[0])
		if err != nil {
			t.Fatal(err)
		}
		words = slices.Concat([]string{strace, "-f", "-o", "/dev/null", "-e", "trace=getdents64", "-e", "inject=getdents64:delay_enter=250000", program}, words[1:], []string{"--jobs", "1", tree})
		if command == "runpath explain" { // which has no --jobs
			words = slices.DeleteFunc(words, func(w string) bool { return w == "--jobs" || w == "1" })
		}
		if command == "runpath manifest" { // on a terminal it prints a document
			words = []string{"sh", "-c", strings.Join(words, " ") + " >document"}
		}
		wait[i] = onTerminalLater(t, 80, nil, words...)
	}
	for i, command := range commands {
		shown := wait[i]()
		if !regexp.MustCompile(`\r\x1b\[K([^\r]*[0-9] files? |looking at tree[0-9]+)`).MatchString(shown) {
			t.Errorf("%s: no progress: %q", command, shown)
		}
		for line := range strings.Lines(shown) {
			if at := strings.LastIndex(line, "\r"); at >= 0 && !strings.HasPrefix(line[at:], "\r\x1b[K") || strings.Contains(line[max(at, 0):], "files read") {
				t.Errorf("%s: the progress stays: %q", command, line)
			}
		}
	}
}

// So does the demonstration, which fetches 143 MB.
func TestProgressOfTheDemo(t *testing.T) {
	long(t)
	library, _ := filepath.Abs("../tests/cudafiles.bash")
	if _, err := os.Stat(library); err != nil {
		t.Skip(err)
	}
	t.Chdir(t.TempDir())
	os.WriteFile("npm", []byte("#!/bin/sh\nsleep 2.5\nexit 1\n"), 0o755)
	shown := onTerminal(t, 80, nil, "bash", "-c", "PATH=$PWD:$PATH; root=$PWD; . "+library+"; fetch_llama")
	if !regexp.MustCompile(`\r\x1b\[Kfetching .*143 MB.* [1-9] s`).MatchString(shown) || !strings.HasSuffix(shown, "\r\x1b[Knpm pack @node-llama-cpp/linux-x64-cuda@3.22.1 failed (no network?)\n") {
		t.Errorf("%q", shown)
	}
}
