// Command corpus edits copies of all dynamic ELF files below the directories given, of whatever machine, and lets the
// judge compare each with the file it was. A file gets a run path of 300 bytes more, then one of 3,000 more, then a
// shorter one, then none.
//
//	go build -o runpath ./cmd/runpath
//	go run ./tests/judge/corpus -runpath ./runpath -patchelf PATCHELF -log files.tsv DIR…
//	go run ./tests/judge/corpus -runpath ./runpath -together 100 DIR…
//
// It prints a table by machine, each refusal with its reason and what patchelf makes of the same file, each finding, and
// what a run before and after gave: programs are started with --version, libraries preloaded into a program that does
// nothing. Its last line is the closing line of a suite.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cuda-runpath/tests/judge"
	"cuda-runpath/tests/judge/sweep"
)

var (
	tool     = flag.String("runpath", "runpath", "the `binary` to check")
	patchelf = flag.String("patchelf", "", "what to ask about files that are refused, a `binary`")
	every    = flag.Int("every", 1, "take every `N`th file")
	offset   = flag.Int("offset", 0, "begin with file `N`")
	limit    = flag.Int("limit", 0, "take `N` files at most")
	jobs     = flag.Int("jobs", runtime.NumCPU(), "`N` files at a time")
	budget   = flag.Duration("budget", 0, "start no new file after this `time`")
	largest  = flag.Int64("largest", 1<<30, "leave out files of more than `N` bytes")
	log      = flag.String("log", "", "write a line for each file to `FILE`")
	scratch  = flag.String("scratch", "", "make the copies in `DIR`")
	libs     = flag.String("libraries", "", "LD_LIBRARY_PATH for runs")
	together = flag.Int("together", 0, "edit `N` files in one run of the binary, each to the same list")
	remarks  = flag.Bool("remarks", false, "print remarks as well")
	runs     = flag.Bool("run", false, "run what this machine can run")
	user     = flag.Int("user", 65534, "the `UID` for runs, where this is root")
	machine  = flag.Int("machine", 0, "only files of this e_machine, a `number`")
	starters = map[uint16][]string{}
)

func init() {
	flag.Func("start", "run files of another machine: `NUMBER=EMULATOR -L ROOT`", func(s string) error {
		number, command, ok := strings.Cut(s, "=")
		n, err := strconv.ParseUint(number, 10, 16)
		if !ok || err != nil {
			return fmt.Errorf("want NUMBER=COMMAND")
		}
		starters[uint16(n)] = strings.Fields(command)
		return nil
	})
}

type result struct {
	path    string
	machine uint16
	size    int64
	alone   string // why it was skipped
	refused string // why it was refused
	theirs  string // what patchelf makes of a refused file
	wrong   []string
	remarks []string
	moved   bool // .dynamic is elsewhere
	growth  int64
	ran     string // "", "program", "library"
	quiet   string // why it was not run
}

func main() {
	flag.Parse()
	dir, err := os.MkdirTemp(*scratch, "corpus.")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	defer os.RemoveAll(dir)
	os.Chmod(dir, 0o755)
	files := find(flag.Args())
	found := len(files)
	files = files[min(*offset, len(files)):]
	var chosen []string
	for i := 0; i < len(files) && (*limit == 0 || len(chosen) < *limit); i += *every {
		chosen = append(chosen, files[i])
	}
	out := io.Discard
	if *log != "" {
		f, err := os.Create(*log)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		defer f.Close()
		out = f
	}
	var batches [][]string
	for rest := chosen; len(rest) > 0; rest = rest[len(batches[len(batches)-1]):] {
		batches = append(batches, batchOf(rest))
	}
	started := time.Now()
	var t table
	report := func(r result) {
		t.add(r)
		state := "edited"
		switch {
		case r.alone != "":
			state = "skipped: " + r.alone
		case r.refused != "":
			state = "refused: " + r.refused
		case len(r.wrong) > 0:
			state = "WRONG: " + strings.Join(r.wrong, "; ")
		}
		fmt.Fprintf(out, "%s\t%s\t%d\t%v\t%d\t%s\t%s\t%s\n", r.path, elf.Machine(r.machine), r.size, r.moved, r.growth, r.ran, state, strings.Join(r.remarks, "; "))
	}
	left := sweep.Each(batches, *jobs, *budget, func(worker int, batch []string) []result {
		d := filepath.Join(dir, fmt.Sprint(worker))
		os.RemoveAll(d)
		os.Mkdir(d, 0o755)
		if *together == 0 {
			return []result{check(d, batch[0])}
		}
		return checkTogether(d, batch)
	}, func(results []result) {
		for _, r := range results {
			report(r)
		}
	})
	fmt.Printf("%d dynamic ELF files, %d taken, %d left when the time was over, %s\n", found, len(chosen), len(slices.Concat(left...)), time.Since(started).Round(time.Second))
	if !t.print() {
		os.RemoveAll(dir)
		os.Exit(1)
	}
}

// find returns the dynamic ELF files below the directories, files that look the same only once.
func find(roots []string) []string {
	seen := map[[32]byte]bool{}
	paths := sweep.Files(roots, func(path string, f *os.File, st fs.FileInfo) bool {
		head := make([]byte, 8192)
		n, _ := io.ReadFull(f, head)
		if n < 64 || st.Size() > *largest {
			return false
		}
		id := sha256.Sum256(fmt.Append(head[:n], st.Size()))
		if seen[id] {
			return false
		}
		e, err := judge.Open(path)
		if err != nil {
			return false
		}
		defer e.Close()
		if !e.Dynamic() || *machine != 0 && int(e.Machine()) != *machine {
			return false
		}
		seen[id] = true
		return true
	})
	slices.Sort(paths)
	return paths
}

func filler(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, ":/corpus/%032d-entry/lib", i+n<<20)
	}
	return b.String()[:n]
}

func check(dir, path string) (r result) {
	r.path = path
	before, err := judge.Open(path)
	if err != nil {
		r.alone = err.Error()
		return r
	}
	defer before.Close()
	r.machine = before.Machine()
	file := filepath.Join(dir, filepath.Base(path))
	if r.size, err = copyFile(file, path); err != nil {
		r.wrong = append(r.wrong, err.Error())
		return r
	}
	own, tag := before.RunPath()
	args := []string{"set", "-v", "--keep-empty"}
	if tag == "RPATH" {
		args = append(args, "--force-rpath")
	} else {
		tag = "RUNPATH"
	}
	join := func(list string) string {
		if own == "" {
			return strings.TrimPrefix(list, ":")
		}
		return own + list
	}
	var expected string
	if *runs {
		expected, r.ran, r.quiet = start(before, file, path)
		if again, _, _ := start(before, file, path); again != expected {
			r.ran, r.quiet = "", "it says something else each time"
		}
	}
	var gone []string
	for i, list := range []string{join(filler(300)), join(filler(3000)), join(":/shorter/one"), ""} {
		want := judge.Expect{RunPath: &judge.RunPath{Tag: tag, List: list}, Gone: gone}
		command := append(slices.Clone(args), list, file)
		if list == "" {
			command = []string{"remove", "--all", "-v", file}
			want.RunPath = &judge.RunPath{}
		}
		output, err := exec.Command(*tool, command...).CombinedOutput()
		said := strings.TrimSpace(strings.ReplaceAll(string(output), file, "FILE"))
		if _, why, ok := strings.Cut(said, "skipped: "); ok && err == nil && i == 0 {
			r.alone = strings.Trim(firstLine(why), `"`)
			return r
		}
		if err != nil {
			r.refused = fmt.Sprintf("step %d: %s", i+1, lastWord(said, err))
			same, _ := sameBytes(path, file)
			if i == 0 && !same {
				r.wrong = append(r.wrong, "refused, and the file is not as it was")
			}
			if *patchelf != "" {
				r.theirs = askPatchelf(before, dir, path, list, tag, expected)
			}
			if i > 0 {
				r.wrong = append(r.wrong, "refused only after an edit of ours: "+r.refused)
			}
			return r
		}
		judgeStep(&r, before, file, i, want)
		if r.ran != "" && list != "" {
			if now, _, _ := start(before, file, path); now != expected {
				r.wrong = append(r.wrong, fmt.Sprintf("[step %d] run: it said %.300q and says %.300q", i+1, expected, now))
			}
		}
		if i < 2 {
			gone = append(gone, strings.Split(filler([]int{300, 3000}[i]), ":")[1:]...)
		}
		if len(r.wrong) > 0 {
			return r
		}
	}
	return r
}

// batchOf returns the files at the beginning of a list that are edited in one run.
func batchOf(files []string) []string {
	if *together == 0 {
		return files[:1]
	}
	const most = 1 << 30 // bytes of copies at a time
	size := int64(0)
	for i, path := range files {
		if st, err := os.Stat(path); err == nil {
			size += st.Size()
		}
		if i > 0 && (i >= *together || size > most) {
			return files[:i]
		}
	}
	return files
}

// checkTogether edits copies of files in one run of the binary for each list: what it
// keeps from one file must not reach the next.
func checkTogether(dir string, paths []string) []result {
	type subject struct {
		before         *judge.File
		file, expected string
		out            bool // skipped, refused or wrong
	}
	results, subjects := make([]result, len(paths)), make([]subject, len(paths))
	for i, path := range paths {
		r, s := &results[i], &subjects[i]
		r.path = path
		var err error
		if s.before, err = judge.Open(path); err != nil {
			r.alone, s.out = err.Error(), true
			continue
		}
		defer s.before.Close()
		r.machine = s.before.Machine()
		s.file = filepath.Join(dir, fmt.Sprintf("%05d", i), filepath.Base(path))
		if err := os.Mkdir(filepath.Dir(s.file), 0o755); err != nil {
			r.wrong, s.out = append(r.wrong, err.Error()), true
			continue
		}
		if r.size, err = copyFile(s.file, path); err != nil {
			r.wrong, s.out = append(r.wrong, err.Error()), true
			continue
		}
		if own, _ := s.before.RunPath(); *runs && own == "" { // its own would be gone
			s.expected, r.ran, r.quiet = start(s.before, s.file, path)
			if again, _, _ := start(s.before, s.file, path); again != s.expected {
				r.ran, r.quiet = "", "it says something else each time"
			}
		}
	}
	var gone []string
	for step, list := range []string{filler(300)[1:], filler(3000)[1:], "/shorter/one", ""} {
		want := judge.Expect{RunPath: &judge.RunPath{Tag: "RUNPATH", List: list}, Gone: gone}
		command := []string{"set", "-v", "--keep-empty", list, dir}
		if list == "" {
			command = []string{"remove", "--all", "-v", dir}
			want.RunPath = &judge.RunPath{}
		}
		output, _ := exec.Command(*tool, command...).CombinedOutput() // a refusal is its status as well: each file's line says
		said := map[string]string{}
		for line := range strings.Lines(string(output)) {
			if at := strings.Index(line, dir+"/"); at >= 0 {
				file, what, _ := strings.Cut(line[at:], ": ")
				if !strings.HasPrefix(what, "warning: ") { // beside what it says of the edit
					said[file] = strings.TrimSpace(what)
				}
			}
		}
		for i := range subjects {
			r, s := &results[i], &subjects[i]
			if s.out {
				continue
			}
			what, told := said[s.file]
			why, skipped := strings.CutPrefix(what, "skipped: ")
			switch {
			case !told:
				r.wrong = append(r.wrong, fmt.Sprintf("[step %d] nothing is said about it", step+1))
			case skipped && step == 0:
				r.alone = strings.Trim(why, `"`)
			case !strings.Contains(what, " -> ") && what != "unchanged" && !strings.HasPrefix(what, "removed"):
				r.refused = fmt.Sprintf("step %d: %s", step+1, what)
			default:
				judgeStep(r, s.before, s.file, step, want)
				if r.ran != "" && list != "" {
					if now, _, _ := start(s.before, s.file, r.path); now != s.expected {
						r.wrong = append(r.wrong, fmt.Sprintf("[step %d] run: it said %.300q and says %.300q", step+1, s.expected, now))
					}
				}
			}
			if s.out = r.alone != "" || r.refused != "" || len(r.wrong) > 0; s.out {
				if same, _ := sameBytes(r.path, s.file); step == 0 && len(r.wrong) == 0 && !same {
					r.wrong = append(r.wrong, "skipped or refused, and the file is not as it was")
				}
				os.Remove(s.file)
			}
		}
		if step < 2 {
			gone = append(gone, strings.Split(list, ":")...)
		}
	}
	return results
}

// judgeStep compares a file with the one before all edits.
func judgeStep(r *result, before *judge.File, file string, step int, want judge.Expect) {
	after, err := judge.Open(file)
	if err != nil {
		r.wrong = append(r.wrong, err.Error())
		return
	}
	defer after.Close()
	for _, f := range judge.Compare(before, after, want) {
		line := fmt.Sprintf("[step %d] %s", step+1, f)
		if !f.Remark {
			r.wrong = append(r.wrong, line)
		} else if !slices.ContainsFunc(r.remarks, func(s string) bool { return strings.HasSuffix(s, f.String()) }) {
			r.remarks = append(r.remarks, line)
		}
	}
	r.moved = r.moved || before.DynamicAt() != after.DynamicAt()
	if st, err := os.Stat(file); err == nil {
		r.growth = max(r.growth, st.Size()-r.size)
	}
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// lastWord takes the complaint out of what the tool said.
func lastWord(said string, err error) string {
	for line := range strings.Lines(said) {
		if _, msg, ok := strings.Cut(line, "msg="); ok {
			return strings.TrimSpace(msg)
		}
	}
	if said == "" {
		return err.Error()
	}
	return firstLine(said)
}

func sameBytes(a, b string) (bool, error) {
	x, err := os.ReadFile(a)
	if err != nil {
		return false, err
	}
	y, err := os.ReadFile(b)
	return bytes.Equal(x, y), err
}

// askPatchelf says what patchelf makes of a file that was refused.
func askPatchelf(before *judge.File, dir, path, list, tag, expected string) string {
	d := filepath.Join(dir, "patchelf")
	os.Mkdir(d, 0o755)
	file := filepath.Join(d, filepath.Base(path))
	if _, err := copyFile(file, path); err != nil {
		return err.Error()
	}
	args := []string{"--set-rpath", list, file}
	if tag == "RPATH" {
		args = append([]string{"--force-rpath"}, args...)
	}
	out, err := exec.Command(*patchelf, args...).CombinedOutput()
	if err != nil {
		return "patchelf: " + firstLine(strings.TrimSpace(string(out))) + " (" + err.Error() + ")"
	}
	says := "patchelf edits it"
	if *runs {
		if now, kind, _ := start(before, file, path); kind != "" && now == expected {
			says += ", and the " + kind + " works as before"
		} else if now != expected {
			says += ", and it is broken"
		}
	}
	if after, err := judge.Open(file); err != nil {
		says += "; then: " + err.Error()
	} else {
		n := 0
		for _, f := range judge.Compare(before, after, judge.Expect{RunPath: &judge.RunPath{Tag: tag, List: list}}) {
			if !f.Remark {
				n++
			}
		}
		says += fmt.Sprintf("; the judge has %d findings", n)
		after.Close()
	}
	return says
}

func copyFile(to, from string) (int64, error) {
	in, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(out, in)
	return n, errors.Join(err, out.Close())
}

var address = regexp.MustCompile(`0x[0-9a-f]+`)

// start runs a program with --version, or a program that does nothing with a library
// preloaded. It returns what that said, and what kind of file it is; no kind where
// the file cannot be run here.
func start(f *judge.File, file, original string) (said, kind, why string) {
	var prefix []string
	root := ""
	if !slices.Contains(native, f.Machine()) {
		prefix = starters[f.Machine()]
		if prefix == nil {
			return "", "", "another machine"
		}
		if i := slices.Index(prefix, "-L"); i >= 0 && i+1 < len(prefix) {
			root = prefix[i+1]
		}
	}
	interp := f.Interpreter()
	args := append(slices.Clone(prefix), file, "--version")
	kind = "program"
	if interp == "" {
		kind = "library"
		idle := root + "/bin/true"
		e, err := judge.Open(idle)
		if err != nil {
			return "", "", "no " + idle
		}
		if e.Machine() != f.Machine() || e.Wide() != f.Wide() {
			e.Close()
			return "", "", "another machine"
		}
		args = append(slices.Clone(prefix), root+e.Interpreter(), "--preload", file, idle)
		e.Close()
	} else if _, err := os.Stat(root + interp); err != nil {
		return "", "", "no " + interp
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = filepath.Dir(file)
	paths := filepath.Dir(original)
	if *libs != "" {
		paths += ":" + *libs
	}
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "HOME=/nonexistent", "LD_BIND_NOW=1"}
	if root == "" {
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+paths)
	} else {
		cmd.Env = append(cmd.Env, "QEMU_SET_ENV=LD_LIBRARY_PATH="+paths+",LD_BIND_NOW=1")
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(*user), Gid: uint32(*user)}
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	said = address.ReplaceAllString(strings.ReplaceAll(out.String(), filepath.Dir(file), "DIR"), "0x…")
	if strings.Contains(said, "cannot open shared object") || strings.Contains(said, "cannot be preloaded") || strings.Contains(said, "Could not open") ||
		strings.Contains(said, "not found (required by") || strings.Contains(said, "undefined symbol") {
		return said, "", "it does not load here"
	}
	if ctx.Err() != nil {
		return "", "", "it does not end"
	}
	if err != nil {
		said += err.Error()
	}
	return said, kind, ""
}

var native = func() []uint16 {
	e, err := judge.Open("/bin/true")
	if err != nil {
		return nil
	}
	defer e.Close()
	return []uint16{e.Machine()}
}()

// A table is what was found, by machine.
type table struct {
	rows                    map[uint16]*[7]int // files, edited, skipped, refused, wrong, .dynamic moved, run
	refusals, wrongs, notes []string
	alone, quiet, ran       map[string]int
	growths                 []int64
	passed, failed          int
}

func (t *table) add(r result) {
	if t.rows == nil {
		t.rows, t.alone, t.quiet, t.ran = map[uint16]*[7]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	}
	row := t.rows[r.machine]
	if row == nil {
		row = new([7]int)
		t.rows[r.machine] = row
	}
	row[0]++
	if len(r.wrong) > 0 {
		row[4]++
		t.failed++
		t.wrongs = append(t.wrongs, fmt.Sprintf("FAILED  %s\n        %s", r.path, strings.Join(r.wrong, "\n        ")))
	}
	switch {
	case r.alone != "":
		row[2]++
		t.alone[r.alone]++
	case r.refused != "":
		row[3]++
		t.refusals = append(t.refusals, fmt.Sprintf("refused %s\n        %s\n        %s", r.path, r.refused, r.theirs))
	default:
		row[1]++
		t.growths = append(t.growths, r.growth)
		if len(r.wrong) == 0 {
			t.passed++
		}
	}
	if r.moved {
		row[5]++
	}
	if r.ran != "" && r.alone == "" && r.refused == "" {
		row[6]++
		t.ran[r.ran]++
	} else if r.quiet != "" {
		t.quiet[r.quiet]++
	}
	for _, m := range r.remarks {
		t.notes = append(t.notes, r.path+": "+m)
	}
}

// print reports whether nothing was wrong.
func (t *table) print() bool {
	fmt.Printf("%-16s %7s %7s %10s %8s %9s %14s %7s\n", "machine", "files", "edited", "skipped", "refused", "findings", ".dynamic moved", "run")
	var machines []uint16
	for m := range t.rows {
		machines = append(machines, m)
	}
	slices.Sort(machines)
	var sum [7]int
	line := func(name string, r *[7]int) {
		fmt.Printf("%-16s %7d %7d %10d %8d %9d %14d %7d\n", name, r[0], r[1], r[2], r[3], r[4], r[5], r[6])
	}
	for _, m := range machines {
		line(strings.TrimPrefix(elf.Machine(m).String(), "EM_"), t.rows[m])
		for i, n := range t.rows[m] {
			sum[i] += n
		}
	}
	line("all", &sum)
	counts := func(what string, m map[string]int) {
		for _, k := range slices.Sorted(keys(m)) {
			fmt.Printf("%s %d: %s\n", what, m[k], k)
		}
	}
	counts("skipped", t.alone)
	counts("run", t.ran)
	counts("not run", t.quiet)
	if slices.Sort(t.growths); len(t.growths) > 0 {
		g := t.growths
		fmt.Printf("growth: median %d, 90%% %d, largest %d bytes\n", g[len(g)/2], g[len(g)*9/10], g[len(g)-1])
	}
	for _, list := range [][]string{t.refusals, t.wrongs} {
		slices.Sort(list)
		for _, l := range list {
			fmt.Println(l)
		}
	}
	kinds := map[string]int{}
	slices.Sort(t.notes)
	for _, n := range t.notes {
		if *remarks {
			fmt.Println(n)
		}
		_, kind, _ := strings.Cut(n, "remark, ")
		kind, _, _ = strings.Cut(kind, ":")
		kinds[kind]++
	}
	counts("remarks", kinds)
	fmt.Printf("%d passed, %d failed, %d skipped\n", t.passed, t.failed, sum[2]+sum[3])
	return t.failed == 0
}

func keys(m map[string]int) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}
