package cmd_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// growing is a format that a stranger can hand us, in a shape that was made to cost time or memory.
type growing struct {
	name string
	size int                       // of the smallest, in whatever unit make counts
	make func(t *testing.T, n int) // puts it into the working directory
	run  string                    // the command line that reads it
	says string                    // what its output has to have, so that the file meant is the file read
}

// doublings is how many times the size of each is doubled.
const doublings = 4

// What these allow is far from what linear growth takes, with all the noise of a machine that has other things to do, and far below
// what quadratic growth does: four times the size is four times as much or sixteen times.
const (
	mostTimes  = 9
	noiseTime  = 150 * time.Millisecond
	noiseBytes = 24 << 20
	mostBytes  = 256 << 20 // of memory, whatever the size
)

// TestGrowth: with the size of a hostile file time and memory grow linearly. CPU time is compared, that of the whole process, and the
// most memory that it had at a time.
func TestGrowth(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	for _, g := range growings {
		t.Run(g.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			var times [doublings + 1]time.Duration
			var bytes [doublings + 1]int64
			for i := range times {
				g.make(t, g.size<<i)
				times[i], bytes[i] = g.measure(t)
			}
			t.Log(times, bytes)
			const a, b = doublings - 2, doublings
			if times[b]-times[0] > mostTimes*(times[a]-times[0])+noiseTime {
				t.Errorf("with the size doubled each time it takes %v", times)
			}
			if bytes[b]-bytes[0] > mostTimes*(bytes[a]-bytes[0])+noiseBytes || bytes[b] > mostBytes {
				t.Errorf("with the size doubled each time it takes %d bytes of memory", bytes)
			}
		})
	}
}

// measure runs the command, more than once where that is quick, and returns the least CPU time and memory.
func (g *growing) measure(t *testing.T) (least time.Duration, bytes int64) {
	t.Helper()
	words := strings.Fields(g.run)
	for n, began := 0, time.Now(); n == 0 || n < 3 && time.Since(began) < time.Second/4; n++ {
		out, err := exec.Command("measured", words...).CombinedOutput()
		var m measurement
		if err == nil {
			err = json.Unmarshal(out, &m)
		}
		if err != nil || !strings.Contains(m.Output, g.says) || m.Status < 0 || m.Status > 1 {
			t.Fatalf("%s: %v, status %d: %.2000s", g.run, err, m.Status, m.Output)
		}
		if n == 0 || m.CPU < least {
			least = m.CPU
		}
		if n == 0 || m.Bytes < bytes {
			bytes = m.Bytes
		}
	}
	return least, bytes
}

// measurement is what a command took, and said in its first lines.
type measurement struct {
	CPU    time.Duration
	Bytes  int64 // of memory, the most that there was at a time
	Status int
	Output string
}

// measured runs its arguments, and prints what that took. It is a program of its own, because a process takes over how much memory
// the one that starts it has had.
func measured() {
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	out := &beginning{}
	cmd.Stdout, cmd.Stderr = out, out
	_ = cmd.Run()
	s := cmd.ProcessState
	_ = json.NewEncoder(os.Stdout).Encode(measurement{s.UserTime() + s.SystemTime(), s.SysUsage().(*syscall.Rusage).Maxrss << 10, s.ExitCode(), string(out.b)})
}

// beginning keeps the first and the last bytes of what is written to it.
type beginning struct{ b []byte }

func (w *beginning) Write(p []byte) (int, error) {
	const most = 4096
	if w.b = append(w.b, p[:min(len(p), most)]...); len(w.b) > 4*most {
		w.b = append(w.b[:most], w.b[len(w.b)-most:]...)
	}
	if len(p) > most {
		w.b = append(w.b, p[max(most, len(p)-most):]...)
	}
	return len(p), nil
}

// file returns a function that makes a file of n times the middle between two ends.
func file(name, begin, middle, finish string) func(*testing.T, int) {
	return func(t *testing.T, n int) {
		t.Helper()
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		w := bufio.NewWriter(f)
		w.WriteString(begin)
		for range n {
			w.WriteString(middle)
		}
		w.WriteString(finish)
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
}

var growings = []growing{
	{"script: one line", 5000, file("a.py", `import ctypes;ctypes.CDLL("libcuda.so.1");`, `f("abcdefgh");`, "\n"), "runpath scripts a.py", "1 place"},
	{"script: one line of JavaScript", 5000, file("a.js", `dlopen("libcuda.so.1");`, `f("abcdefgh");`, "\n"), "runpath scripts a.js", "1 place"},
	{"script: one line of Lua", 5000, file("a.lua", `ffi.load("libcuda.so.1") `, `f("abcdefgh") ffi.load("libcuda.so.1") `, "\n"), "runpath scripts a.lua", "1000 places"},
	{"script: names that load", 8000, file("a.py", "import ctypes\nctypes.CDLL('libcuda.so.1')\n", "ab=CDLL\nf(1)\n", ""), "runpath scripts a.py", "1 place"},
	{"script: parameters", 8000, func(t *testing.T, n int) {
		file("a.py", "x='libcuda.so.1'\ndef f("+strings.Repeat("a,", n/2)+"b):\n  pass\nf(", "c=x,", ")\n")(t, n/2)
	}, "runpath scripts a.py", "0 places"},
	{"script: loops", 200, file("a.py", "x='libcuda.so.1'\n", strings.Repeat("for a ", 100)+"in "+strings.Repeat("b ", 100)+"\n", ""), "runpath scripts a.py", "0 places"},
	{"script: ldconfig", 1000, file("a.py", "x='libcuda.so.1'\ndef f():\n", "  if a:\n    return [X]\n  b = g('ldconfig -p')\n", ""), "runpath scripts a.py", "ldconfig -p"},
	{"script: ldconfig in one line", 1000, file("a.py", "x='libcuda.so.1'\ndef f():\n  ", "if a: return [X]; b = g('ldconfig -p');", "\n"), "runpath scripts a.py", "ldconfig -p"},
	{"script: what is no fallback", 5000, file("a.py", "x='libcuda.so.1';", "x='') else 'a';", "\n"), "runpath scripts a.py", "0 places"},
	{"script: places", 5000, file("a.py", "import ctypes\n", "ctypes.CDLL('libcuda.so.1') ;", "\n"), "runpath scripts --json a.py", "libcuda"},
	{"script: arguments", 5000, file("a.py", "x = "+strings.Repeat("get(1,", 60), "'libcuda.so.1',", "\n"), "runpath scripts -v a.py", "libcuda"},
	{"script: C", 5000, file("a.c", "", `dlopen("libcuda.so.1");`, "\n"), "runpath scripts --json a.c", "libcuda"},
	{"script: notebook", 5000, file("a.ipynb", "{\"cells\": [{\n\"cell_type\": \"code\",\n\"source\": [\n", "\"CDLL('libcuda.so.1');\",\n", "\"\"]}]}\n"), "runpath scripts a.ipynb", "1000 places"},
	{"script: names in one call", 4000, file("a.py", python+"CDLL(", `"libcuda.so.1",`, ")\n"), "runpath scripts a.py", "libcuda"},
	{"script: names in one list", 4000, file("a.py", python+"y = [", `"libcuda.so.1",`, "]\nCDLL(y)\n"), "runpath scripts a.py", "libcuda"},
	{"script: names in loops", 2000, file("a.py", python, "for n in [\"libcuda.so.1\"]: CDLL(n)\n", ""), "runpath scripts a.py", "libcuda"},
	{"script: defaults", 4000, file("a.py", python+`y = d.get("a",`, `"libcuda.so.1",`, ")\n"), "runpath scripts -v a.py", "libcuda"},
	{"script: calls in calls", 10000, file("a.py", python+"def f(a, *b): CDLL(a)\n", "f(x,", ""), "runpath scripts a.py", "libcuda"},
	{"script: brackets", 100000, file("a.py", python, "(", ""), "runpath scripts -v a.py", "libcuda"},
	{"script: functions of one name", 1000, file("a.py", python, "def f(x"+strings.Repeat(",x", 20)+"): return CDLL(x)\nf(x)\n", ""), "runpath scripts a.py", "libcuda"},
	{"script: functions in functions", 500, func(t *testing.T, n int) {
		var b strings.Builder
		for i := range n {
			b.WriteString(strings.Repeat(" ", min(i, 200)) + "def f(x): CDLL(x)\n")
		}
		file("a.py", python, b.String(), "CDLL(x)\n")(t, 1)
	}, "runpath scripts a.py", "libcuda"},
	{"script: variables set from variables", 300, file("a.py", python, strings.Repeat("a=", 40)+strings.Repeat("x ", 60)+"\n", ""), "runpath scripts -v a.py", "libcuda"},
	{"script: names in comments", 5000, file("a.py", python+"CDLL(x)\n", "# \"libcuda.so.1\"\n", ""), "runpath scripts a.py", "libcuda"},
}

const python = "import ctypes\nx = \"libcuda.so.1\"\n"
