package cmd_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cuda-runpath/tests/tinyelf"
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
	noiseTime  = 400 * time.Millisecond // of a slow machine that runs two suites at once, where 64 ms and 480 were measured of what is linear
	noiseBytes = 48 << 20               // how far a garbage collector lets a heap grow differs from run to run
	mostBytes  = 256 << 20              // of memory, whatever the size
	mostTime   = 2 * time.Second        // of a tree that is examined, a row whose name begins with "tree: "
)

// TestGrowth: with the size of a hostile file time and memory grow linearly. CPU time is compared, that of the whole process, and the
// most memory that it had at a time.
func TestGrowth(t *testing.T) {
	long(t)
	end, measure := measuring(t)
	defer end()
	for _, g := range growings {
		t.Run(g.name, func(t *testing.T) {
			var times [3]time.Duration
			var bytes [3]int64
			var wrong []string
			for try := range 3 { // the least of each counts: what grows too much is measured again
				t.Chdir(t.TempDir())
				for i, size := range []int{g.size, g.size << (doublings - 2), g.size << doublings} {
					g.make(t, size)
					m := measure(t, &g)
					if try == 0 {
						times[i], bytes[i] = m.CPU, m.Bytes
					}
					times[i], bytes[i] = min(times[i], m.CPU), min(bytes[i], m.Bytes)
				}
				if wrong = g.wrong(times, bytes); wrong == nil {
					break
				}
			}
			t.Log(times, bytes)
			for _, w := range wrong {
				t.Error(w)
			}
		})
	}
}

// wrong says what of it grows too much.
func (g *growing) wrong(times [3]time.Duration, bytes [3]int64) (all []string) {
	least := slices.Min(times[:]) // a smaller size that takes longer has met with noise
	if times[2]-least > mostTimes*(slices.Max(times[:2])-least)+noiseTime {
		all = append(all, fmt.Sprintf("with the size four times as large, twice, it takes %v", times))
	}
	if bytes[2]-bytes[0] > mostTimes*max(bytes[1]-bytes[0], 0)+noiseBytes || bytes[2] > mostBytes {
		all = append(all, fmt.Sprintf("with the size four times as large, twice, it takes %d bytes of memory", bytes))
	}
	if strings.HasPrefix(g.name, "tree: ") && times[2] > mostTime {
		all = append(all, fmt.Sprintf("at its largest it takes %v", times[2]))
	}
	return all
}

// measuring starts the program that measures. It returns what ends it, and what runs a command in the working directory.
func measuring(t *testing.T) (end func(), measure func(*testing.T, *growing) measurement) {
	t.Helper()
	cmd := exec.Command("measured")
	stdin, err := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	if err := errors.Join(err, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	ask, answer := json.NewEncoder(stdin), json.NewDecoder(stdout)
	end = func() {
		stdin.Close()
		cmd.Wait()
	}
	return end, func(t *testing.T, g *growing) (m measurement) {
		t.Helper()
		words := strings.Fields(g.run)
		if script, is := strings.CutPrefix(g.run, "sh -c "); is {
			words = []string{"sh", "-c", script}
		}
		err := errors.Join(ask.Encode(toMeasure{workingDirectory(t), words}), answer.Decode(&m))
		if err != nil || !strings.Contains(m.Output, g.says) || m.Status < 0 || m.Status > 1 {
			t.Fatalf("%s: %v, status %d: %.2000s", g.run, err, m.Status, m.Output)
		}
		return m
	}
}

// toMeasure is a command line, and where it is run.
type toMeasure struct {
	Dir   string
	Words []string
}

// measurement is what a command took, and said in its first lines.
type measurement struct {
	CPU    time.Duration
	Bytes  int64 // of memory, the most that there was at a time
	Status int
	Output string
}

// measured runs each command line of stdin, and prints what that took. It is a program of its own, because a process takes
// over how much memory the one that starts it has had.
func measured() {
	ask, answer := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var m toMeasure
		if ask.Decode(&m) != nil {
			return
		}
		cmd := exec.Command(m.Words[0], m.Words[1:]...)
		out := &beginning{}
		cmd.Dir, cmd.Stdout, cmd.Stderr = m.Dir, out, out
		_ = cmd.Run()
		s := cmd.ProcessState
		_ = answer.Encode(measurement{s.UserTime() + s.SystemTime(), s.SysUsage().(*syscall.Rusage).Maxrss << 10, s.ExitCode(), string(out.b)})
	}
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

	{"record: empty entries", 100000, record(func(int) string { return "{}" }), "autoPatchelf --undo tree", "does not name a file"},
	{"record: files that are gone", 5000, record(func(i int) string { return fmt.Sprintf(`{"path":"g%d"}`, i) }), "autoPatchelf --undo --dry-run tree", "gone"},
	{"record: files that are gone, in a run", 5000, record(func(i int) string { return fmt.Sprintf(`{"path":"g%d"}`, i) }), "autoPatchelf --dry-run --append-rpaths /x tree", ""},
	{"record: names of one file", 5000, record(func(i int) string {
		if i > 0 {
			return `{"path":"gone","also":["gone"]}`
		}
		return `{"path":"a.so","also":["a.so","a.so"]}`
	}), "autoPatchelf --undo --dry-run tree", "is in it twice"},
	{"record: nested", 100000, func(t *testing.T, n int) {
		tree(t)
		file("tree.autopatchelf.json", head(t, "tree"), `[`, "")(t, n)
	}, "autoPatchelf --undo tree", "not trusted"},
	{"record: one string", 500000, func(t *testing.T, n int) {
		tree(t)
		file("tree.autopatchelf.json", head(t, "tree")+`{"path":"a.so`, `a`, `"}]}`)(t, n)
	}, "autoPatchelf --undo tree", ""},
	{"record: many in a directory", 250, func(t *testing.T, n int) {
		tree(t)
		for i := range n {
			file(fmt.Sprintf("%d.autopatchelf.json", i), head(t, "tree/a.so"), `{"path":"gone"},`, "{}]}")(t, 100)
		}
	}, "autoPatchelf --undo tree", "nothing to undo"},
	{"record: of single files", 250, func(t *testing.T, n int) {
		tree(t)
		for i := range n {
			if err := os.WriteFile(fmt.Sprintf("tree/f%d.so", i), emptyLibrary.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		file("tree/.autopatchelf.json", head(t, "tree"), "", "")(t, 0)
	}, "sh -c cd tree; autoPatchelf --dry-run --append-rpaths /x *.so", ""},

	{"baseline: lines", 5000, func(t *testing.T, n int) {
		tree(t)
		lines(t, "b", n, func(i int) string { return fmt.Sprintf("missing-library\t/x%d\t\tlib.so\n", i) })
	}, "runpath audit --baseline b tree/a.so", ""},
	{"baseline: one line", 100000, func(t *testing.T, n int) { tree(t); file("b", "missing-library\t", "a", "\n")(t, n) }, "runpath audit --baseline b tree/a.so", ""},
	{"hints", 5000, func(t *testing.T, n int) {
		tree(t)
		lines(t, "h", n, func(i int) string { return fmt.Sprintf("lib%d.so pack%d\n", i, i) })
	}, "autoPatchelf --dry-run --hints h tree", ""},

	{"ld.so.conf: directories", 3750, func(t *testing.T, n int) {
		hostRoot(t)
		lines(t, "root/etc/ld.so.conf", n, func(i int) string { return fmt.Sprintf("/usr/lib/d%d\n", i) })
	}, "hostDriver find --root root --machine x86_64", ""},
	{"ld.so.conf: includes", 2000, func(t *testing.T, n int) {
		hostRoot(t)
		lines(t, "root/etc/ld.so.conf", n, func(int) string { return "include /etc/ld.so.conf\n" })
	}, "hostDriver find --root root --machine x86_64", ""},
	{"ld.so.conf: explain", 3750, func(t *testing.T, n int) {
		hostRoot(t)
		tree(t)
		lines(t, "root/etc/ld.so.conf", n, func(i int) string { return fmt.Sprintf("/usr/lib/d%d\n", i) })
	}, "runpath explain --root root tree/a.so", ""},
	{"vendor file: nested", 500, func(t *testing.T, n int) {
		hostRoot(t)
		file("root/usr/share/vulkan/icd.d/nvidia_icd.json", `{"ICD":{"library_path":"libGLX_nvidia.so.0"},"x":`, "[", strings.Repeat("]", n)+"}")(t, n)
	}, "hostDriver install --dry-run --root root", ""},
	{"vendor files: many", 100, func(t *testing.T, n int) {
		hostRoot(t)
		for i := range n {
			file(fmt.Sprintf("root/usr/share/vulkan/icd.d/nvidia_%d.json", i), `{"ICD":{"library_path":"libGLX_nvidia.so.0"},"x":"`, "x", `"}`)(t, 1000)
		}
	}, "hostDriver install --dry-run --root root", ""},
	{"units: lines", 5000, func(t *testing.T, n int) {
		hostRoot(t)
		lines(t, "root/etc/systemd/system/hostDriver.service", n, func(i int) string { return fmt.Sprintf("[Service]\nExecStart=/x%d\n", i) })
	}, "hostDriver uninstall --dry-run --root root", ""},
	{"what was made", 5000, func(t *testing.T, n int) {
		hostRoot(t)
		file("root/var/lib/hostDriver/made.json", `{"version":1,"x":[`, "{},", "{}]}")(t, n)
	}, "hostDriver uninstall --dry-run --root root", ""},
	{"nix.conf: lines", 5000, func(t *testing.T, n int) {
		hostRoot(t)
		lines(t, "root/etc/nix/nix.conf", n, func(i int) string { return fmt.Sprintf("pre-build-hook = /x%d\nsandbox-paths = a b c d\n", i) })
	}, "hostDriver sandbox --dry-run --root root", ""},
	{"nix.conf: includes", 500, func(t *testing.T, n int) {
		hostRoot(t)
		lines(t, "root/etc/nix/nix.conf", n, func(int) string { return "include nix.conf\n!include other\n" })
	}, "hostDriver sandbox --dry-run --root root", ""},

	{"ELF: names in one string", 500, elves(func(e *hostileELF, n int) {
		e.strings = strings.Repeat("a", n) + "\x00"
		for i := range n {
			e.dynamic = append(e.dynamic, [2]uint64{uint64(elf.DT_NEEDED), uint64(i)})
		}
	}), "runpath audit f.so", ""},
	{"ELF: names in one string, shown", 500, elves(func(e *hostileELF, n int) {
		e.strings = strings.Repeat("a", n) + "\x00"
		for i := range n {
			e.dynamic = append(e.dynamic, [2]uint64{uint64(elf.DT_NEEDED), uint64(i)})
		}
	}), "runpath show f.so", ""},
	{"ELF: needed libraries", 500, elves(func(e *hostileELF, n int) {
		for i := range n {
			e.dynamic = append(e.dynamic, [2]uint64{uint64(elf.DT_NEEDED), uint64(len(e.strings))})
			e.strings += fmt.Sprintf("l%d\x00", i)
		}
	}), "runpath explain f.so", ""},
	{"ELF: needed libraries, patched", 500, elves(func(e *hostileELF, n int) {
		for i := range n {
			e.dynamic = append(e.dynamic, [2]uint64{uint64(elf.DT_NEEDED), uint64(len(e.strings))})
			e.strings += fmt.Sprintf("l%d\x00", i)
		}
	}), "autoPatchelf --dry-run --append-rpaths /x --ignore-missing * -- f.so", ""},
	{"ELF: run path entries", 2000, elves(func(e *hostileELF, n int) {
		e.dynamic = append(e.dynamic, [2]uint64{uint64(elf.DT_RUNPATH), uint64(len(e.strings))})
		e.strings += many(n, func(i int) string { return fmt.Sprintf("/d%d:", i) }) + "/x\x00"
	}), "runpath audit f.so", ""},
	{"ELF: run path entries, normalized", 2000, elves(func(e *hostileELF, n int) {
		e.dynamic = append(e.dynamic, [2]uint64{uint64(elf.DT_RUNPATH), uint64(len(e.strings))})
		e.strings += many(n, func(i int) string { return fmt.Sprintf("/d%d::", i) }) + "/x\x00"
	}), "autoAddDriverRunpath --dry-run --dedupe f.so", ""},
	{"ELF: run path entries, patched", 2000, elves(func(e *hostileELF, n int) {
		e.dynamic = append(e.dynamic, [2]uint64{uint64(elf.DT_RUNPATH), uint64(len(e.strings))})
		e.strings += many(n, func(i int) string { return fmt.Sprintf("/d%d:", i) }) + "/x\x00"
	}), "autoPatchelf --dry-run --append-rpaths /x f.so", ""},
	{"ELF: notes", 5000, elves(func(e *hostileELF, n int) {
		e.notes = strings.Repeat("\x04\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00GNU\x00", n)
	}), "runpath audit f.so", ""},
	{"ELF: segments of notes", 500, elves(func(e *hostileELF, n int) {
		e.notes = strings.Repeat("\x04\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00GNU\x00", n)
		e.noteSegments = n
	}), "runpath audit f.so", ""},
	{"ELF: segments of notes, edited", 500, elves(func(e *hostileELF, n int) {
		e.notes = strings.Repeat("\x04\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00GNU\x00", n)
		e.noteSegments = n
	}), "runpath set --dry-run /x f.so", ""},
	{"ELF: record of an unfinished edit, what is dead", 250, elves(func(e *hostileELF, n int) {
		e.strings = strings.Repeat("\x01", 500*n)
		e.unfinished = func(at uint64) (moved, dead [][]uint64) {
			for range n {
				dead = append(dead, []uint64{(at-1000)<<1 | 1, 1000, 7}) // its size and that it is an offset, the offset, the sum
			}
			return nil, dead
		}
	}), "runpath set --dry-run /x f.so", ""},
	{"ELF: record of an unfinished edit, what has moved", 500, elves(func(e *hostileELF, n int) {
		e.unfinished = func(uint64) (moved, dead [][]uint64) {
			for i := range n {
				moved = append(moved, []uint64{uint64(4 * i), 100, 1, 100})
			}
			return moved, nil
		}
	}), "runpath set --dry-run /x f.so", ""},
	{"ELF: dlopen note", 2000, elves(func(e *hostileELF, n int) {
		e.notes = dlopenNote("[" + many(n, func(i int) string { return fmt.Sprintf(`{"soname":["l%d.so"]},`, i) }) + "{}]")
	}), "runpath audit f.so", ""},
	{"ELF: nested dlopen note", 50000, elves(func(e *hostileELF, n int) { e.notes = dlopenNote(strings.Repeat("[", n)) }), "runpath audit f.so", ""},
	{"ELF: resolution note", 2000, func(t *testing.T, n int) {
		o := emptyLibrary
		o.Resolution = many(n, func(i int) string { return fmt.Sprintf("l%d.so=/d%d/l.so:", i, i) })
		if err := os.WriteFile("f.so", o.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}, "runpath audit f.so", ""},
	{"GPU: containers", 2000, func(t *testing.T, n int) { file("f.fatbin", "", container, "")(t, n) }, "runpath gpu f.fatbin", ""},
	{"GPU: entries", 2000, func(t *testing.T, n int) {
		var b strings.Builder
		for range n {
			b.WriteString(container[16:])
		}
		h := []byte(container[:16])
		binary.LittleEndian.PutUint64(h[8:], uint64(b.Len()))
		file("f.fatbin", string(h), b.String(), "")(t, 1)
	}, "runpath gpu f.fatbin", ""},
	{"GPU: entries, thinned", 2000, func(t *testing.T, n int) { file("f.fatbin", "", container, "")(t, n) }, "runpath thin --dry-run --for 9.0 f.fatbin", ""},
	{"arguments", 250, func(t *testing.T, n int) {
		tree(t)
		for i := range n {
			if err := os.WriteFile(fmt.Sprintf("tree/f%d.so", i), emptyLibrary.Needs("libz9.so").Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}, "sh -c cd tree; autoPatchelf --dry-run --append-rpaths /x --ignore-missing x -- *.so", ""},
	{"Python: scripts and modules, audit", 20, environment, "runpath audit tree", "libgone.so"},
	{"Python: scripts and modules, explain", 20, environment, "runpath explain tree", "starts by bin/python3.12"},
	{"Python: scripts and modules, manifest", 20, environment, "runpath manifest tree", "abi3"},

	{"tree: nested directories", 75, func(t *testing.T, n int) {
		tree(t)
		dir := "tree"
		for range n {
			dir += "/a"
			_ = os.Mkdir(dir, 0o755)
			file(dir+"/__init__.py", "", "", "")(t, 0)
		}
	}, "runpath audit tree", ""},
	{"tree: directories of a .pth file", 500, func(t *testing.T, n int) {
		venv(t, 1, many(n, func(i int) string { return fmt.Sprintf("import q%d\n", i) }))
		dir := workingDirectory(t)
		for i := range n {
			_ = os.MkdirAll(fmt.Sprintf("named/%d/space", i), 0o755)
		}
		lines(t, site+"/x.pth", n, func(i int) string { return fmt.Sprintf("%s/named/%d\n", dir, i) })
	}, "runpath audit tree", ""},
	{"tree: directories of one package", 500, func(t *testing.T, n int) {
		venv(t, 1, many(n, func(i int) string { return fmt.Sprintf("import space.q%d\n", i) }))
		dir := workingDirectory(t)
		for i := range n {
			_ = os.MkdirAll(fmt.Sprintf("named/%d/space", i), 0o755)
		}
		lines(t, site+"/x.pth", n, func(i int) string { return fmt.Sprintf("%s/named/%d\n", dir, i) })
	}, "runpath audit tree", ""},
	{"tree: spellings of a directory", 500, func(t *testing.T, n int) {
		venv(t, 1, many(n, func(i int) string { return fmt.Sprintf("import q%d\n", i) }))
		spellings(t, n)
	}, "runpath audit tree", ""},
	{"tree: spellings of a directory, doctor", 50, func(t *testing.T, n int) {
		venv(t, 1, "")
		spellings(t, n)
		for i := range 200 {
			program := tinyelf.Object{Interp: "/lib64/ld-linux-x86-64.so.2"}.Bytes()
			if err := os.WriteFile(fmt.Sprintf("named/p%d", i), program, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}, "hostDriver doctor tree", ""},
	{"tree: scripts that import one module", 100, func(t *testing.T, n int) {
		venv(t, n, "import m0\n")
		for i := range 300 {
			lines(t, fmt.Sprintf("%s/m%d.py", site, i), n/3, func(j int) string { return fmt.Sprintf("import m%d\n", (i+j)%300) })
		}
	}, "runpath audit tree", ""},
	{"tree: packages that import one module, doctor", 30, func(t *testing.T, n int) {
		venv(t, 0, "")
		module := emptyLibrary.With(elf.DT_SONAME, "PyInit_c").Bytes()
		for i := range n {
			dir := fmt.Sprintf("%s/p%d", site, i)
			if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(dir+"/c.so", module, 0o755)); err != nil {
				t.Fatal(err)
			}
			lines(t, dir+"/__init__.py", 1, func(int) string { return "import m0\n" })
		}
		for i := range 100 {
			lines(t, fmt.Sprintf("%s/m%d.py", site, i), n/3, func(j int) string { return fmt.Sprintf("import m%d\n", (i+j)%100) })
		}
	}, "hostDriver doctor tree", ""},
	{"tree: arguments of explain", 25, func(t *testing.T, n int) {
		for i := range n {
			dir := fmt.Sprintf("d%d", i)
			missing := emptyLibrary.Needs(fmt.Sprintf("libgone%d.so", i)).Bytes()
			if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(dir+"/l.so", missing, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
	}, "sh -c runpath explain d*/l.so", "libgone"},
	{"tree: libraries that each need the 20 before", 100, func(t *testing.T, n int) {
		for i := range n + 1 {
			o := tinyelf.Object{}.With(elf.DT_SONAME, fmt.Sprintf("l%d.so", i)).With(elf.DT_RUNPATH, "$ORIGIN")
			name := fmt.Sprintf("l%d.so", i)
			if i == n {
				o, name = tinyelf.Object{Interp: "/lib64/ld-linux-x86-64.so.2"}.With(elf.DT_RUNPATH, "$ORIGIN"), "p"
			}
			for before := max(0, i-20); before < i; before++ {
				o = o.Needs(fmt.Sprintf("l%d.so", before))
			}
			if err := os.WriteFile(name, o.Bytes(), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}, "runpath explain p", "/p  (glibc"},
	{"tree: entries of an image", 200, func(t *testing.T, n int) {
		images(t, n)
	}, "runpath thin --image to --for 9.0 image", ""},
}

// site is where the environment that venv makes has its packages.
const site = "tree/lib/python3.12/site-packages"

// venv makes an environment of Python's with scripts of one text.
func venv(t *testing.T, scripts int, text string) {
	t.Helper()
	program := tinyelf.Object{Interp: "/lib64/ld-linux-x86-64.so.2"}.Bytes()
	if err := errors.Join(os.MkdirAll("tree/bin", 0o755), os.MkdirAll(site, 0o755),
		os.WriteFile("tree/pyvenv.cfg", []byte("home = /usr/bin\n"), 0o644),
		os.WriteFile("tree/bin/python3.12", program, 0o755)); err != nil {
		t.Fatal(err)
	}
	for i := range scripts {
		file(fmt.Sprintf("tree/bin/s%d", i), "#!"+workingDirectory(t)+"/tree/bin/python3.12\n"+text, "", "")(t, 0)
	}
}

// spellings makes a .pth file with n names of one directory.
func spellings(t *testing.T, n int) {
	t.Helper()
	if err := os.MkdirAll("named", 0o755); err != nil {
		t.Fatal(err)
	}
	dir := workingDirectory(t)
	lines(t, site+"/x.pth", n, func(i int) string {
		name := dir
		for bit := range 14 {
			name += []string{"/", "/./"}[i>>bit&1]
		}
		return name + "named\n"
	})
}

func workingDirectory(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// images makes an archive of n images that name a layer of their own each, all of one content, and as many entries that
// nothing names.
func images(t *testing.T, n int) {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	put := func(name, text string) {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	type named struct {
		Config string
		Layers []string
	}
	var all []named
	for i := range n {
		var layer bytes.Buffer
		l := tar.NewWriter(&layer)
		if err := errors.Join(l.WriteHeader(&tar.Header{Name: fmt.Sprint("f", i), Typeflag: tar.TypeReg}), l.Close()); err != nil {
			t.Fatal(err)
		}
		config := fmt.Sprintf(`{"config":{},"rootfs":{"diff_ids":["sha256:%x"]}}`, sha256.Sum256(layer.Bytes()))
		all = append(all, named{fmt.Sprintf("%d.json", i), []string{fmt.Sprintf("%d/layer.tar", i)}})
		put(all[i].Config, config)
		put(all[i].Layers[0], layer.String())
		put(fmt.Sprintf("blobs/%d", i), "")
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	put("manifest.json", string(text))
	if err := errors.Join(w.Close(), os.WriteFile("image", b.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// environment makes one of Python's, with n scripts that import n modules of 30 kB.
func environment(t *testing.T, n int) {
	t.Helper()
	const site = "tree/lib/python3.12/site-packages/m"
	for _, dir := range []string{"tree/bin", site} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program := tinyelf.Object{Interp: "/lib64/ld-linux-x86-64.so.2"}.Needs("libgone.so").Bytes()
	module := emptyLibrary.With(elf.DT_SONAME, "PyInit_c").Needs("libgone.so").Bytes()
	for name, data := range map[string][]byte{"tree/bin/python3.12": program, site + "/c.abi3.so": module} {
		if err := os.WriteFile(name, data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	lines(t, site+"/__init__.py", n+1, func(i int) string {
		return fmt.Sprintf("from m import %s\n", []string{"c", fmt.Sprint("a", i)}[min(i, 1)])
	})
	for i := range n {
		file(fmt.Sprintf("%s/a%d.py", site, i+1), "", "x = f(1, 'a text')\n", "")(t, 1500)
		file(fmt.Sprintf("tree/bin/s%d", i), "#!"+dir+"/tree/bin/python3.12\nimport m\n", "", "")(t, 0)
	}
}

// emptyLibrary is one that tells nothing.
var emptyLibrary = tinyelf.Object{Strings: []tinyelf.Entry{{Tag: elf.DT_RUNPATH, Str: "/old"}}}

// tree makes a tree with a library.
func tree(t *testing.T) {
	t.Helper()
	if err := os.MkdirAll("tree", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("tree/a.so", emptyLibrary.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// hostRoot makes the root of a host.
func hostRoot(t *testing.T) {
	t.Helper()
	for _, dir := range []string{"etc/nix", "etc/systemd/system", "usr/lib64", "usr/share/vulkan/icd.d", "var/lib/hostDriver", "run"} {
		if err := os.MkdirAll("root/"+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"libcuda.so.1", "libGLX_nvidia.so.0"} {
		if err := os.WriteFile("root/usr/lib64/"+name, tinyelf.Object{Strings: []tinyelf.Entry{{Tag: elf.DT_SONAME, Str: name}}}.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// head is what a record of a directory begins with.
func head(t *testing.T, dir string) string {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Stat(dir, &st); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"version":1,"tree":{"device":%d,"inode":%d,"owner":%d},"files":[`, st.Dev, st.Ino, st.Uid)
}

// record returns a function that makes a tree, and beside it a record with n entries.
func record(entry func(i int) string) func(*testing.T, int) {
	return func(t *testing.T, n int) {
		t.Helper()
		tree(t)
		lines(t, "tree.autopatchelf.json", n+1, func(i int) string {
			switch i {
			case 0:
				return head(t, "tree")
			case n:
				return entry(i-1) + "]}"
			}
			return entry(i-1) + ","
		})
	}
}

// lines makes a file of n lines.
func lines(t *testing.T, name string, n int, line func(i int) string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	for i := range n {
		w.WriteString(line(i))
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
}

func many(n int, one func(i int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(one(i))
	}
	return b.String()
}

// container is one of GPU code, of one entry of machine code for 8.0 (gpu-code.md's layout: magic, version, header size, size; kind,
// version, header size, size, …).
var container = func() string {
	b := make([]byte, 16+64+16)
	le := binary.LittleEndian
	le.PutUint32(b, 0xBA55ED50)
	le.PutUint16(b[4:], 1)
	le.PutUint16(b[6:], 16)
	le.PutUint64(b[8:], 64+16)
	e := b[16:]
	le.PutUint16(e, 2)
	le.PutUint16(e[2:], 0x101)
	le.PutUint32(e[4:], 64)
	le.PutUint64(e[8:], 16)
	le.PutUint32(e[28:], 80)
	le.PutUint64(e[40:], 0x11)
	return string(b)
}()

func dlopenNote(text string) string {
	text += "\x00"
	b := binary.LittleEndian.AppendUint32(nil, 4)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	b = binary.LittleEndian.AppendUint32(b, 0x407c0c0a)
	return string(b) + "FDO\x00" + text + strings.Repeat("\x00", -len(text)&3)
}

// hostileELF is a library that no linker makes.
type hostileELF struct {
	strings      string
	dynamic      [][2]uint64
	notes        string
	noteSegments int
	// unfinished returns two lists of a record, which is at an address; nil: there is no record.
	unfinished func(at uint64) (moved, dead [][]uint64)
}

// record is what an edit leaves that was not finished: see "What a record says" in pkg/elfedit/doc.go.
func (e *hostileELF) record(at uint64, dynamic []byte) string {
	moved, dead := e.unfinished(at)
	sum := uint64(crc32.ChecksumIEEE(dynamic))
	zigzag := func(v uint64) uint64 { return (v-at)<<1 ^ uint64(int64(v-at)>>63) }
	nums := []uint64{at, 0, 0, sum + 1, sum, zigzag(0), 0, 0, 0, 0, 0, uint64(len(moved))}
	for _, m := range moved {
		nums = append(nums, zigzag(m[0]), m[1], zigzag(m[2]), m[3])
	}
	nums = append(nums, uint64(len(dead)))
	for _, d := range dead {
		nums = append(nums, d...)
	}
	nums = append(nums, 0, 0, zigzag(0), 0, 0, zigzag(0), 0, 0, 0, 0, 0, 0, 0)
	var body []byte
	for _, v := range nums {
		body = binary.AppendUvarint(body, v)
	}
	head := binary.LittleEndian.AppendUint32([]byte("\x00@edit.1\x00"), uint32(len(body)))
	return string(append(binary.LittleEndian.AppendUint32(head, crc32.ChecksumIEEE(body)), body...))
}

// elves returns a function that makes f.so.
func elves(shape func(*hostileELF, int)) func(*testing.T, int) {
	return func(t *testing.T, n int) {
		t.Helper()
		e := &hostileELF{noteSegments: 1}
		shape(e, n)
		if err := os.WriteFile("f.so", e.bytes(), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func (e *hostileELF) bytes() []byte {
	const headers = 64
	segments := 2 + e.noteSegments
	strings := uint64(headers + 56*segments)
	dynamic := (strings + uint64(len(e.strings)) + 7) &^ 7
	e.dynamic = append(e.dynamic, [2]uint64{uint64(elf.DT_STRTAB), strings}, [2]uint64{uint64(elf.DT_STRSZ), uint64(len(e.strings))}, [2]uint64{})
	notes := dynamic + uint64(16*len(e.dynamic))
	le := binary.LittleEndian
	flags, record := elf.PF_R|elf.PF_W, ""
	if e.unfinished != nil {
		var entries []byte
		for _, d := range e.dynamic[:len(e.dynamic)-1] {
			entries = le.AppendUint64(le.AppendUint64(entries, d[0]), d[1])
		}
		flags, record = flags|0xc0_0000, e.record(notes+uint64(len(e.notes)), entries)
	}
	size := notes + uint64(len(e.notes)+len(record))
	b := make([]byte, size)
	copy(b, "\x7fELF\x02\x01\x01")
	le.PutUint16(b[16:], uint16(elf.ET_DYN))
	le.PutUint16(b[18:], uint16(elf.EM_X86_64))
	le.PutUint32(b[20:], 1)
	le.PutUint64(b[32:], headers)
	le.PutUint16(b[52:], headers)
	le.PutUint16(b[54:], 56)
	le.PutUint16(b[56:], uint16(segments))
	put := func(i int, kind elf.ProgType, at, size, align uint64) {
		p := b[headers+56*i:]
		le.PutUint32(p, uint32(kind))
		le.PutUint32(p[4:], uint32(flags))
		for _, o := range []int{8, 16, 24} {
			le.PutUint64(p[o:], at)
		}
		le.PutUint64(p[32:], size)
		le.PutUint64(p[40:], size)
		le.PutUint64(p[48:], align)
	}
	put(0, elf.PT_LOAD, 0, size, 4096)
	put(1, elf.PT_DYNAMIC, dynamic, uint64(16*len(e.dynamic)), 8)
	for i := range e.noteSegments {
		put(2+i, elf.PT_NOTE, notes, uint64(len(e.notes)), 4)
	}
	copy(b[strings:], e.strings)
	for i, d := range e.dynamic {
		le.PutUint64(b[dynamic+uint64(16*i):], d[0])
		le.PutUint64(b[dynamic+uint64(16*i)+8:], d[1])
	}
	copy(b[notes:], e.notes+record)
	return b
}

const python = "import ctypes\nx = \"libcuda.so.1\"\n"
