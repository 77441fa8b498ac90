// Command bench measures the tools beside what they replace, in one run and on one
// machine: the loop that nixpkgs' hooks run over a tree (find, ELF magic, patchelf
// --print-rpath, patchelf --set-rpath), restated here, and the floor that no tool
// goes below: walking the tree and reading 4 KiB of each file.
//
//	go run ./tests/bench
//	go run ./tests/bench -runs 9 -patchelf ./patchelf -large /path/to/libcublasLt.so.12
//
// Every figure is the median of its runs, the commands of a row taking turns; min and max stand beside it, and the time
// of processors, for a busy machine does not slow alike what runs on one of them and on several.
// Files are restored between runs, outside the clock, and are in the page cache.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

var (
	runs     = flag.Int("runs", 5, "measure each command `N` times")
	patchelf = flag.String("patchelf", "patchelf", "the patchelf to compare with")
	tools    = flag.String("tools", "", "directory of our binaries (default: built from ./cmd)")
	large    = flag.String("large", "", "a large library (default: a sparse one of 1 GiB, built here)")
	only     = flag.String("only", "", "only rows whose name contains `TEXT`")
	floor    = flag.String("floor", "", "walk `DIR` and read 4 KiB of each file: what other runs of this program measure")
)

func main() {
	flag.Parse()
	var err error
	if *floor != "" {
		err = walk(*floor)
	} else {
		err = bench()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// walk is the floor.
func walk(dir string) error {
	buf := make([]byte, 4096)
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer syscall.Close(fd)
		_, err = syscall.Read(fd, buf)
		return err
	})
}

// loop is what nixpkgs' driver hook does to a tree, in our words.
const loop = `
driver=/run/opengl-driver/lib
find "$1" -type f -print0 | while IFS= read -r -d '' file; do
  IFS= read -r -n 4 magic 2>/dev/null <"$file"
  [[ $magic == $'\x7fELF' ]] || continue
  old=$("$2" --print-rpath "$file" 2>/dev/null) || continue
  "$2" --set-rpath "$driver:$old" "$file"
done`

// A command is one way of doing a row's work.
type command struct {
	name    string
	args    []string
	prepare func() error // before each run, outside the clock
	times   []time.Duration
	used    []time.Duration // of processors, by it and all that it started
	peak    int64           // KiB
}

func (c *command) run() error {
	if c.prepare != nil {
		if err := c.prepare(); err != nil {
			return err
		}
	}
	cmd := exec.Command(c.args[0], c.args[1:]...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	started := time.Now()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(c.args, " "), err, stderr.String())
	}
	c.times = append(c.times, time.Since(started))
	c.used = append(c.used, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		c.peak = max(c.peak, int64(u.Maxrss)) //nolint:unconvert // int32 on 32-bit machines
	}
	return nil
}

func median(times []time.Duration) time.Duration {
	t := slices.Sorted(slices.Values(times))
	return t[len(t)/2]
}

func (c *command) String() string {
	return fmt.Sprintf("%-34s %9.2f ms   (%.2f to %.2f)   %9.2f ms of processors   %6.1f MiB", c.name, ms(median(c.times)),
		ms(slices.Min(c.times)), ms(slices.Max(c.times)), ms(median(c.used)), float64(c.peak)/1024)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// row measures commands that do the same work, taking turns, and prints them.
func row(title string, commands ...*command) error {
	if !strings.Contains(title, *only) {
		return nil
	}
	for range *runs {
		for _, c := range commands {
			if err := c.run(); err != nil {
				return err
			}
		}
	}
	fmt.Printf("\n%s\n", title)
	for _, c := range commands {
		fmt.Printf("  %v\n", c)
	}
	return nil
}

// goal prints a ratio beside what it should be. Rows that were not run have none.
func goal(a, b *command, atLeast, atMost float64) {
	if len(a.times) == 0 || len(b.times) == 0 {
		return
	}
	ratio := float64(median(a.times)) / float64(median(b.times))
	met, want := ratio >= atLeast, fmt.Sprintf("at least %g", atLeast)
	if atMost > 0 {
		met, want = ratio <= atMost, fmt.Sprintf("at most %g", atMost)
	}
	verdict := "reached"
	if !met {
		verdict = "MISSED"
	}
	fmt.Printf("  %s / %s = %.2f (of processor time %.2f), to reach: %s: %s\n", a.name, b.name, ratio,
		float64(median(a.used))/float64(median(b.used)), want, verdict)
}

func output(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

func bench() error {
	for _, tool := range []string{"gcc", "bash", "find", "cp", *patchelf} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("needed: %w", err)
		}
	}
	work, err := os.MkdirTemp("", "bench.")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if *tools == "" {
		*tools = filepath.Join(work, "bin")
		if err := os.Mkdir(*tools, 0o755); err != nil {
			return err
		}
		build := exec.Command("go", "build", "-o", *tools+"/", "./cmd/...")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("%w (call this from the top of the project)\n%s", err, out)
		}
	}
	version, err := exec.Command(*patchelf, "--version").Output()
	if err != nil {
		return err
	}
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Printf("median of %d runs (min to max), peak memory; %s; load average before: %s", *runs,
		strings.TrimSpace(string(version)), load)

	library, err := smallLibrary(work)
	if err != nil {
		return err
	}
	for _, part := range []func(work, library string) error{small, crowd, largeFile} {
		if err := part(work, library); err != nil {
			return err
		}
	}
	return nil
}

func tool(name string) string { return filepath.Join(*tools, name) }

// smallLibrary builds one of about 50 KB, with a run path that a build leaves.
func smallLibrary(work string) (string, error) {
	var source strings.Builder
	for i := range 300 {
		fmt.Fprintf(&source, "int function_of_the_library_%d(int x) { return x * %d + %d; }\n", i, i, i/3)
	}
	source.WriteString("const char filler[20000] = {1};\n")
	if err := os.WriteFile(filepath.Join(work, "small.c"), []byte(source.String()), 0o644); err != nil {
		return "", err
	}
	return filepath.Join(work, "small.so"), output(work, "gcc", "-O1", "-shared", "-fPIC", "small.c", "-o", "small.so",
		"-Wl,-soname,libsmall.so.1,-rpath,/nix/store/00000000000000000000000000000000-a-package-1.0/lib:$ORIGIN")
}

// fill makes a tree of n files, every step-th of them the library, in directories of 100.
func fill(dir, library string, n, step int) error {
	content, err := os.ReadFile(library)
	if err != nil {
		return err
	}
	text := bytes.Repeat([]byte("a line of text, as most files of a package are\n"), 60)
	for i := range n {
		in := filepath.Join(dir, fmt.Sprintf("%03d", i/100))
		if i%100 == 0 {
			if err := os.MkdirAll(in, 0o755); err != nil {
				return err
			}
		}
		b, name := text, fmt.Sprintf("%05d.py", i)
		if i%step == 0 {
			b, name = content, fmt.Sprintf("lib%05d.so", i)
		}
		if err := os.WriteFile(filepath.Join(in, name), b, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func small(work, library string) error {
	from, dir := filepath.Join(work, "small.orig"), filepath.Join(work, "small.tree")
	if err := fill(from, library, 1000, 1); err != nil {
		return err
	}
	restore := func() error {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		return output(work, "cp", "-r", from, dir)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	theirs := &command{name: "find + patchelf", args: []string{"bash", "-c", loop, "bash", dir, *patchelf},
		prepare: restore}
	ours := &command{name: "autoAddDriverRunpath", args: []string{tool("autoAddDriverRunpath"), "-q", dir},
		prepare: restore}
	if err := row("1,000 small ELF files, all edited", theirs, ours); err != nil {
		return err
	}
	goal(theirs, ours, 80, 0)

	if err := restore(); err != nil {
		return err
	}
	if err := output(work, tool("autoAddDriverRunpath"), "-q", dir); err != nil {
		return err
	}
	least := &command{name: "walk + 4 KiB", args: []string{self, "-floor", dir}}
	again := &command{name: "autoAddDriverRunpath again", args: []string{tool("autoAddDriverRunpath"), "-q", dir}}
	if err := row("the same, nothing to do", least, again); err != nil {
		return err
	}
	goal(again, least, 0, 3)

	one := &command{name: "one tool", args: []string{tool("autoAddDriverRunpath"), "-q", dir}, prepare: restore}
	sum := &command{name: "stubReplace, then the two others", prepare: restore, args: []string{"bash", "-c",
		`"$1/stubReplace" -q "$2" && "$1/autoAddDriverRunpath" -q "$2" && "$1/addCudaCompatRunpath" -q --compat /compat "$2"`,
		"bash", *tools, dir}}
	together := &command{name: "runpath normalize (all in one)", prepare: restore,
		args: []string{tool("runpath"), "normalize", "-q", "--tool", "stubReplace",
			"--tool", "autoAddDriverRunpath", "--tool", "addCudaCompatRunpath", "--compat", "/compat", dir}}
	if err := row("the three editing tools on 1,000 files", one, sum, together); err != nil {
		return err
	}
	if len(one.times) > 0 {
		fmt.Printf("  together / one = %.2f, sum / one = %.2f\n", float64(median(together.times))/float64(median(one.times)),
			float64(median(sum.times))/float64(median(one.times)))
	}

	// As packages call patchelf: one process a file, with three changes.
	named := filepath.Join(work, "patchelf")
	if err := os.Symlink(tool("runpath"), named); err != nil {
		return err
	}
	each := func(name, program string) *command {
		return &command{name: name, prepare: restore, args: []string{"bash", "-c",
			`for file in "$2"/*/*; do
  "$1" --set-soname libother.so.2 --set-rpath "$3" --add-needed libnew.so.1 "$file"
done`, "bash", program, dir,
			"/nix/store/eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee-gcc-15/lib:/nix/store/dddddddddddddddddddddddddddddddd-cuda/lib"}}
	}
	theirs, ours = each("patchelf, a process each", *patchelf), each("ours by that name", named)
	if err := row("one process a file, 1,000 files", theirs, ours); err != nil {
		return err
	}
	goal(ours, theirs, 0, 1.4)
	return errors.Join(os.RemoveAll(from), os.RemoveAll(dir))
}

func crowd(work, library string) error {
	const title = "100,000 files, 1 % of them ELF, nothing to do"
	if !strings.Contains(title, *only) {
		return nil
	}
	dir := filepath.Join(work, "crowd")
	if err := fill(dir, library, 100_000, 100); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	find := &command{name: "find -type f", args: []string{"find", dir, "-type", "f", "-fprint", "/dev/null"}}
	least := &command{name: "walk + 4 KiB", args: []string{self, "-floor", dir}}
	ours := &command{name: "autoAddDriverRunpath", args: []string{tool("autoAddDriverRunpath"), "-q", dir}}
	if err := output(work, tool("autoAddDriverRunpath"), "-q", dir); err != nil {
		return err
	}
	if err := row(title, find, least, ours); err != nil {
		return err
	}
	goal(ours, least, 0, 2)
	return os.RemoveAll(dir)
}

func largeFile(work, _ string) error {
	const title = "one large file, one edit"
	if !strings.Contains(title, *only) {
		return nil
	}
	from := *large
	if from == "" {
		from = filepath.Join(work, "large.so")
		source := ".section .fatbin,\"a\",@progbits\n.skip 0x40000000\n.text\n.globl f\nf: ret\n"
		if err := os.WriteFile(filepath.Join(work, "large.s"), []byte(source), 0o644); err != nil {
			return err
		}
		if err := output(work, "gcc", "-shared", "-nostdlib", "large.s", "-o", from); err != nil {
			return err
		}
		if err := output(work, "fallocate", "--dig-holes", from); err != nil {
			return err
		}
	}
	file := filepath.Join(work, "large.copy")
	restore := func() error { return output("", "cp", "--sparse=always", from, file) }
	list := "/run/opengl-driver/lib:" + strings.Repeat("/nix/store/00000000000000000000000000000000-a-package-1.0/lib:",
		20) + "$ORIGIN"
	theirs := &command{name: "patchelf --set-rpath", args: []string{*patchelf, "--set-rpath", list, file},
		prepare: restore}
	ours := &command{name: "runpath set", args: []string{tool("runpath"), "set", "-q", list, file}, prepare: restore}
	if err := row(title, theirs, ours); err != nil {
		return err
	}
	goal(theirs, ours, 200, 0)
	before, err := os.Stat(from)
	if err != nil {
		return err
	}
	after, err := os.Stat(file) // ours was last
	if err != nil {
		return err
	}
	fmt.Printf("  %d bytes, %d larger after ours; peak memory %.1f MiB, to reach: at most 32\n", before.Size(),
		after.Size()-before.Size(), float64(ours.peak)/1024)
	return os.Remove(file)
}
