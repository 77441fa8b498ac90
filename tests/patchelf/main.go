// Command patchelf makes random calls of patchelf and of our program with patchelf's
// command line, each on its own copy of the same file, and compares the exit status,
// what is printed and what the file says afterwards. Each difference must be one of
// those in known.go, which says why.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

var (
	ours   = flag.String("ours", "", "the program under test")
	theirs = flag.String("theirs", "patchelf", "the yardstick")
	dir    = flag.String("corpus", "", "what corpus.bash made")
	calls  = flag.Int("calls", 300, "number of calls")
	seed   = flag.Uint64("seed", 1, "of the random calls")
	keep   = flag.String("keep", "", "keep the files of calls that differ in this directory")
	most   = flag.Int("most", 4, "options in one call")
	shapes = flag.String("shapes", "", "a file with calls to make besides")
	tell   = flag.Bool("v", false, "show each known difference")
)

// call is one command line, but for the file's name.
type call struct {
	n    int
	args []string
	file string // in the corpus
	out  bool   // with --output
	// before is what the file says, or nil.
	before map[string]string
}

// side is what came of a call.
type side struct {
	status         int // -1: ended by a signal
	stdout, stderr string
	before, after  []byte
	facts          map[string]string
	err            error // the file cannot be read any more
}

func main() {
	flag.Parse()
	files, err := filepath.Glob(filepath.Join(*dir, "files", "*"))
	if err != nil || len(files) == 0 {
		fmt.Println("no corpus in", *dir)
		fmt.Println("0 passed, 1 failed, 0 skipped")
		os.Exit(1)
	}
	for _, program := range []*string{ours, theirs} {
		if *program, err = exec.LookPath(*program); err == nil {
			*program, err = filepath.Abs(*program)
		}
		if err != nil {
			panic(err)
		}
	}
	help, _ := exec.Command(*theirs, "--help").CombinedOutput()
	if version, _ := exec.Command(*theirs, "--version").Output(); strings.Contains(string(version), " 0.19.0") {
		help = bytes.ReplaceAll(help, []byte(cacheOption), nil) // 0.19.1 says more in the note, and is the one to agree with
	}
	r := rand.New(rand.NewPCG(*seed, 1))
	var todo []call
	for i := range *calls {
		todo = append(todo, call{n: i, args: randomArgs(r, string(help)), file: files[r.IntN(len(files))]})
		if r.IntN(12) == 0 {
			todo[i].out = true
		}
	}
	work, err := os.MkdirTemp("", "calls")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(work)
	type result struct {
		call   call
		diffs  []string
		reason []string
	}
	results := make([]result, len(todo))
	var wg sync.WaitGroup
	next := make(chan int)
	for range 2 {
		wg.Go(func() {
			for i := range next {
				c := todo[i]
				diffs, reasons := compare(work, c)
				results[i] = result{c, diffs, reasons}
			}
		})
	}
	for i := range todo {
		next <- i
	}
	close(next)
	wg.Wait()
	passed, failed := 0, 0
	if *shapes != "" {
		passed, failed = compareShapes(*shapes, work)
		fmt.Printf("%d calls as packages have them: %d alike\n", passed+failed, passed)
	}
	known := map[string]int{}
	for _, res := range results {
		for _, reason := range res.reason {
			known[reason]++
			if *tell {
				fmt.Printf("known   %s: %q %s\n", reason, res.call.args, filepath.Base(res.call.file))
			}
		}
		if len(res.diffs) == 0 {
			passed++
			continue
		}
		failed++
		fmt.Printf("FAILED  call %d: %q %s\n", res.call.n, res.call.args, filepath.Base(res.call.file))
		for _, d := range res.diffs {
			fmt.Println("        " + d)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(known)) {
		fmt.Printf("known difference, %d times: %s\n", known[reason], reason)
	}
	fmt.Printf("%d passed, %d failed, 0 skipped\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

// compare runs both on copies of the file. It returns the differences that nothing
// explains, and the explanations of the others.
func compare(work string, c call) (unexplained, reasons []string) {
	at := filepath.Join(work, fmt.Sprint(c.n))
	c.before, _ = facts(c.file)
	o := runSide(*ours, filepath.Join(at, "ours"), c)
	t := runSide(*theirs, filepath.Join(at, "theirs"), c)
	defer os.RemoveAll(at)
	differ := func(what, ours, theirs string) {
		if reason := known(c, what, o, t); reason != "" {
			if !slices.Contains(reasons, reason) {
				reasons = append(reasons, reason)
			}
			return
		}
		unexplained = append(unexplained, fmt.Sprintf("%s: ours %s, patchelf's %s", what, ours, theirs))
	}
	if o.status != t.status {
		differ("status", fmt.Sprintf("%d (%s)", o.status, strings.TrimSpace(o.stderr)),
			fmt.Sprintf("%d (%s)", t.status, strings.TrimSpace(t.stderr)))
	}
	if o.stdout != t.stdout {
		differ("stdout", fmt.Sprintf("%q", o.stdout), fmt.Sprintf("%q", t.stdout))
	}
	if a, b := warnings(o.stderr), warnings(t.stderr); a != b && o.status == 0 && t.status == 0 {
		differ("warnings", a, b)
	}
	if o.status != 0 && !c.out && !bytes.Equal(o.before, o.after) {
		unexplained = append(unexplained, "ours failed and changed the file")
	}
	if o.status == 0 && t.status == 0 && o.facts != nil {
		if o.err != nil || t.err != nil {
			if fmt.Sprint(o.err) != fmt.Sprint(t.err) {
				differ("readable", fmt.Sprint(o.err), fmt.Sprint(t.err))
			}
		} else {
			for _, what := range slices.Sorted(maps.Keys(union(o.facts, t.facts))) {
				if o.facts[what] != t.facts[what] {
					differ(what, fmt.Sprintf("%q", o.facts[what]), fmt.Sprintf("%q", t.facts[what]))
				}
			}
		}
	}
	if len(unexplained) > 0 && *keep != "" {
		os.MkdirAll(*keep, 0o755)
		exec.Command("cp", "-r", at, filepath.Join(*keep, fmt.Sprint(c.n))).Run()
	}
	return unexplained, reasons
}

const cacheOption = "--build-resolution-cache"

// warnings returns what is said of a resolution note that is not written.
func warnings(stderr string) (lines string) {
	for line := range strings.Lines(stderr) {
		if strings.HasPrefix(line, "warning: "+cacheOption) {
			lines += line
		}
	}
	return lines
}

func union(a, b map[string]string) map[string]string {
	u := maps.Clone(a)
	maps.Copy(u, b)
	return u
}

func runSide(program, at string, c call) side {
	os.MkdirAll(at, 0o755)
	name := filepath.Join(at, filepath.Base(c.file))
	var s side
	s.before, _ = os.ReadFile(c.file)
	os.WriteFile(name, s.before, 0o755)
	result := name
	args := slices.Clone(c.args)
	for i, a := range args { // a file with an argument's text
		if text, ok := strings.CutPrefix(a, "@@"); ok {
			file := filepath.Join(at, fmt.Sprintf("argument%d", i))
			os.WriteFile(file, []byte(text), 0o644)
			args[i] = "@" + file
		}
	}
	args = append(args, name)
	if c.out {
		result = filepath.Join(at, "output")
		args = append(args, "--output", result)
	}
	cmd := exec.Command(program, args...)
	cmd.Dir = at
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); cmd.ProcessState == nil {
		panic(err) // it did not start: then nothing is compared
	}
	s.status = cmd.ProcessState.ExitCode()
	s.stdout, s.stderr = stdout.String(), stderr.String()
	s.after, s.err = os.ReadFile(result)
	if bytes.HasPrefix(s.before, []byte("\x7fELF")) && s.err == nil {
		s.facts, s.err = facts(result)
		if s.facts == nil {
			s.facts = map[string]string{}
		}
	}
	return s
}

// randomArgs makes one to four options that the yardstick's help names.
func randomArgs(r *rand.Rand, help string) []string {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	libs := filepath.Join(*dir, "libs")
	runPath := func() string {
		return pick("", "/a", "/a:/b", "$ORIGIN/../lib", libs+"/own", "/a::/b:", libs+"/empty:"+libs+"/own",
			strings.Repeat("/a/long/directory/for/libraries:", 40)+"/end",
			"@@"+libs+"/own:/from/a/file", "/nix/store/eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee-glibc/lib")
	}
	lib := func() string {
		return pick("libdep.so", "libc.so.6", "libnew.so.1", "libother.so", "/an/absolute/libdep.so", "value", "dep.so",
			"libdep.so.2", "lib"+strings.Repeat("long", 60)+".so")
	}
	options := [][]string{
		{"--print-interpreter"}, {"--print-rpath"}, {"--print-soname"}, {"--print-needed"}, {"--print-execstack"},
		{"--print-os-abi"},
		{"--set-interpreter", pick("/lib/ld.so", "/lib64/ld-linux-x86-64.so.2",
			"/nix/store/"+strings.Repeat("e", 32)+"-glibc-2.40/lib/ld-linux-x86-64.so.2",
			strings.Repeat("/directory", 50)+"/ld.so", "", "@@/from/a/file")},
		{"--set-rpath", runPath()}, {"--set-rpath", runPath()}, {"--set-rpath", runPath()}, {"--add-rpath", runPath()},
		{"--add-rpath", runPath()},
		{"--remove-rpath"}, {"--shrink-rpath"}, {"--shrink-rpath"}, {
			"--shrink-rpath", "--allowed-rpath-prefixes", pick(libs, "/nowhere", "", libs+"/own:/x")},
		{"--force-rpath"}, {"--force-rpath", "--set-rpath", runPath()},
		{"--add-needed", lib()}, {"--add-needed", lib()}, {"--remove-needed", lib()}, {"--replace-needed", lib(), lib()},
		{"--replace-needed", "libdep.so", lib()}, {"--replace-needed", "libc.so.6", lib()},
		{"--set-soname", pick("libx.so.1", "libsum.so.1", "value", strings.Repeat("soname", 50), "s")},
		{"--no-default-lib"}, {"--add-debug-tag"},
		{"--clear-symbol-version", pick("value", "second", "printf", "nosuch", "__libc_start_main")},
		{"--set-execstack"}, {"--clear-execstack"},
		{"--set-os-abi", pick("linux", " System V", "FreeBSD", "hurd", "nonsense")},
		{"--page-size", pick("4096", "65536", "0", "x")}, {"--no-sort"}, {"--no-clobber-old-sections"},
		{"--debug"}, {"--unknown"}, {"--set-rpath=/x"}, {cacheOption}, {cacheOption}, {cacheOption, "--set-rpath", runPath()},
	}
	var args []string
	for n := 1 + r.IntN(*most); n > 0; {
		option := options[r.IntN(len(options))]
		// Most calls should do something: rare ones are rarer still, and what the yardstick lacks is left out.
		if (option[0] == "--unknown" || option[0] == "--set-rpath=/x" || option[0] == "--page-size" ||
			strings.HasSuffix(option[len(option)-1], "nonsense")) && r.IntN(8) > 0 {
			continue
		}
		if name := option[0]; name != "--unknown" && name != "--set-rpath=/x" && !strings.Contains(help, "["+name) {
			continue
		}
		args = append(args, option...)
		n--
	}
	return args
}
