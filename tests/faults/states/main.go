// Command states judges edits that are interrupted: killed after each of their writes, torn at each border of a page,
// or failed with ENOSPC and EIO. It knows the writes from strace and what a file says from the loader, readelf, strip,
// llvm-strip and objcopy; it shares no code with the editor.
//
//	states [-bin DIR] [-seed N] [-share N] [-edit TEXT] [-v]
//
// For each state: it loads; stripped, it loads; stripped and edited by us, it loads; "runpath show" and "runpath audit"
// say that an edit was interrupted once readelf sees a change, and say nothing of the old file and of the new one; the
// same edit again leaves what the uninterrupted one leaves, and so does another edit. -share 1 (the default: 8) takes
// every state; 8, one of eight.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

var (
	bin     = flag.String("bin", "", "where our programs are")
	seed    = flag.Uint64("seed", 1, "which states of each share are taken, and what is done to them")
	share   = flag.Uint64("share", 8, "one of so many states is taken; 1: all")
	only    = flag.String("edit", "", "only edits whose name contains this")
	keep    = flag.String("keep", "", "keep the states that fail in this folder")
	verbose = flag.Bool("v", false, "a line for each edit")
)

var (
	work   string
	mu     sync.Mutex
	passed = map[string]int{}
	failed = map[string][]string{}
)

// judged counts one question to a state.
func judged(what string, ok bool, format string, args ...any) bool {
	mu.Lock()
	defer mu.Unlock()
	if ok {
		passed[what]++
	} else {
		failed[what] = append(failed[what], fmt.Sprintf(format, args...))
	}
	return ok
}

// must runs what only prepares.
func must(args ...string) {
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		fmt.Printf("FAILED  %v: %v: %.300s\n0 passed, 1 failed, 0 skipped\n", args, err, out)
		os.Exit(1)
	}
}

func read(path string) []byte {
	b, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	return b
}

// place makes path a file of its own with b in it.
func place(path string, b []byte) {
	os.Remove(path)
	if err := os.WriteFile(path, b, 0o755); err != nil {
		panic(err)
	}
}

// An edit is a command line and the file that it is for.
type edit struct {
	name   string
	base   string     // a file of the folder
	before [][]string // edits of the base that come first
	args   []string
	gone   []string // texts that are not in the file afterwards
}

// says is what a program, or a program that opens a library, prints. Only what the loader says of an error is a
// difference.
func says(path string) string {
	cmd := exec.Command(path)
	if !strings.HasPrefix(filepath.Base(path), "prog") {
		cmd = exec.Command(work+"/open", path)
	}
	cmd.Env = append(os.Environ(), "LD_BIND_NOW=1")
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.ETXTBSY) { // a process that was just started has what place had open
		time.Sleep(10 * time.Millisecond)
		return says(path)
	}
	if err != nil {
		return fmt.Sprintf("%v: %.200s", err, strings.ReplaceAll(string(out), path, "FILE"))
	}
	return string(out)
}

// loads judges that a file says what it said before or after the edit.
func loads(question, what, path string, may []string) bool {
	now := says(path)
	return judged(question, slices.Contains(may, now), "%s: it says %q", what, now)
}

// view is what a reader sees of a file but where it is.
func view(path string) string {
	out, _ := exec.Command("readelf", "-W", "-h", "-l", "-S", "-d", "-n", path).CombinedOutput()
	var lines []string
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		switch {
		// a program header: type, sizes but of PT_LOAD, flags
		case len(f) >= 8 && strings.HasPrefix(f[1], "0x") && strings.HasPrefix(f[2], "0x"):
			flags := strings.Join(f[6:len(f)-1], "")
			if f[0] == "LOAD" || f[0] == "PHDR" || f[0] == "DYNAMIC" {
				lines = append(lines, "program header "+f[0]+" "+flags)
			} else {
				lines = append(lines, "program header "+f[0]+" "+flags+" "+f[4])
			}
		case sectionLine.MatchString(line):
			m := sectionLine.FindStringSubmatch(line)
			lines = append(lines, "section "+m[1]+" "+m[2])
		case strings.HasPrefix(strings.TrimSpace(line), "0x") && strings.Contains(line, "["): // a string of .dynamic
			lines = append(lines, "dynamic "+strings.Join(f[1:], " "))
		case strings.Contains(line, "interpreter:"), strings.Contains(line, "OS/ABI"), strings.Contains(line, "(FLAGS"),
			strings.Contains(line, "Build ID"),
			strings.Contains(line, "Properties"), strings.Contains(line, "description data"), strings.HasPrefix(line, "  NixOS"):
			lines = append(lines, strings.TrimSpace(line))
		case strings.Contains(line, "Warning"), strings.Contains(line, "Error"):
			lines = append(lines, strings.ReplaceAll(strings.TrimSpace(line), path, "FILE"))
		}
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

var sectionLine = regexp.MustCompile(`^  \[ *\d+\] (\S+)\s+([A-Z_]+) `)

// differ is the first line that one of two views has alone.
func differ(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	var out []string
	for _, l := range x {
		if i := slices.Index(y, l); i >= 0 {
			y = slices.Delete(y, i, i+1)
		} else {
			out = append(out, "+"+l)
		}
	}
	for _, l := range y {
		out = append(out, "-"+l)
	}
	return fmt.Sprintf("%.400s", strings.Join(out[:min(len(out), 5)], "; "))
}

// ours runs one of our programs on a file.
func ours(path string, args []string) (string, error) {
	program := *bin + "/runpath"
	if args[0] == "patchelf" {
		program, args = work+"/named/patchelf", args[1:]
	}
	cmd := exec.Command(program, append(slices.Clone(args), path)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// A change is one pwrite64, or with nil the file's new length.
type change struct {
	off  int
	data []byte
}

var called = regexp.MustCompile(
	`(?:pwrite64\(\d+<([^>]*)>, "((?:\\x[0-9a-f]{2})*)", \d+, (\d+)|ftruncate\(\d+<([^>]*)>, (\d+))`)

// traced runs an edit of path and returns its writes to it; inject is what strace is to let fail.
func traced(path string, args []string, inject string) (changes []change, said string, err error) {
	program := *bin + "/runpath"
	if args[0] == "patchelf" {
		program, args = work+"/named/patchelf", args[1:]
	} else {
		at := slices.Index(args, "-q")
		args = slices.Insert(slices.Clone(args), at, "--jobs", "1")
	}
	trace := path + ".trace"
	strace := []string{"-f", "-y", "-xx", "-s", "100000000", "-qq", "-o", trace, "-e", "trace=pwrite64,ftruncate"}
	if inject != "" {
		strace = append(strace, "-e", "inject="+inject)
	}
	cmd := exec.Command("strace", append(append(append(strace, program), args...), path)...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(read(trace))) {
		m := called.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if m[4] != "" {
			n, _ := strconv.Atoi(m[5])
			changes = append(changes, change{n, nil})
			continue
		}
		off, _ := strconv.Atoi(m[3])
		data := make([]byte, 0, len(m[2])/4)
		for i := 0; i+4 <= len(m[2]); i += 4 {
			b, _ := strconv.ParseUint(m[2][i+2:i+4], 16, 8)
			data = append(data, byte(b))
		}
		changes = append(changes, change{off, data})
	}
	return changes, string(out), err
}

func (c change) apply(b []byte) []byte {
	b = slices.Clone(b)
	if c.data == nil {
		return append(b, make([]byte, max(0, c.off-len(b)))...)[:c.off]
	}
	b = append(b, make([]byte, max(0, c.off+len(c.data)-len(b)))...)
	copy(b[c.off:], c.data)
	return b
}

// A state is what an interrupted edit has left.
type state struct {
	what string
	b    []byte
}

// states returns those of an edit: killed before each write, torn in it at pages' borders, and those that are still to
// be made.
func states(old []byte, changes []change) (out []state) {
	b := old
	for i, c := range changes {
		if i > 0 {
			out = append(out, state{fmt.Sprintf("killed after %d of %d writes", i, len(changes)), b})
		}
		const page = 4096
		var cuts []int
		for n := page - c.off%page; n < len(c.data); n += page {
			cuts = append(cuts, n)
		}
		if len(cuts) > 4 {
			cuts = []int{cuts[0], cuts[1], cuts[len(cuts)/2], cuts[len(cuts)-1]}
		}
		for _, n := range cuts {
			out = append(out, state{fmt.Sprintf("torn after %d of %d bytes of write %d of %d", n, len(c.data), i+1,
				len(changes)), change{c.off, c.data[:n]}.apply(b)})
		}
		b = c.apply(b)
	}
	return out
}

// others are edits that come after an interrupted one.
func (e *edit) others() [][]string {
	return [][]string{
		{"edit", "-q", "--run-path", "/other"},
		{"edit", "-q", "--run-path", "$ORIGIN/new:" + strings.Repeat("/other/", 300)},
		{"edit", "-q", "--add-needed", "libm.so.6"},
		{"edit", "-q", "--set-execstack"},
		{"cache", "remove", "-q"},
	}
}

func (e *edit) chosen(what string, n int) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, *seed, e.name, what, n)
	return h.Sum64()
}

// judge asks everything of one edit.
func (e *edit) judge(dir string) {
	// In folders side by side, whose libraries are the same, each file has the name that it had when it was linked.
	file := func(in string) string { return filepath.Join(work, dir, in, filepath.Base(e.base)) }
	for _, in := range []string{"v", "s", "x", "y"} {
		if err := os.MkdirAll(filepath.Dir(file(in)), 0o755); err != nil {
			panic(err)
		}
		for _, name := range []string{"old", "new"} {
			os.Symlink(work+"/"+name, filepath.Join(filepath.Dir(file(in)), name))
		}
	}
	victim, side := file("v"), file("s")
	place(victim, read(filepath.Join(work, e.base)))
	for _, args := range e.before {
		if out, err := ours(victim, args); err != nil {
			judged("the edits", false, "%s: %v: %v %.200s", e.name, args, err, out)
			return
		}
	}
	old := read(victim)
	oldView, oldSays := view(victim), says(victim)
	changes, out, err := traced(victim, e.args, "")
	end := read(victim)
	endView, endSays := view(victim), says(victim)
	b := old
	for _, c := range changes {
		b = c.apply(b)
	}
	broken := strings.Contains(endSays, "status") && !strings.Contains(oldSays, "status")
	if !judged("the edits", err == nil && bytes.Equal(b, end) && len(changes) > 0 && !broken,
		"%s: %v, %d writes, says %q, then %q, %.200s", e.name, err, len(changes), oldSays, endSays, out) {
		return
	}
	for _, text := range e.gone {
		judged("the edits", bytes.Contains(old, []byte(text)) && !bytes.Contains(end, []byte(text)),
			"%s: %q was there: %v, is: %v", e.name, text, bytes.Contains(old, []byte(text)), bytes.Contains(end, []byte(text)))
	}
	all := states(old, changes)
	call := 0 // of pwrite64
	for n, c := range changes {
		if c.data == nil {
			continue
		}
		call++
		for _, name := range []string{"ENOSPC", "EIO"} {
			if e.chosen(name, n)%*share != 0 {
				continue
			}
			place(victim, old)
			_, out, err := traced(victim, e.args, fmt.Sprintf("pwrite64:error=%s:when=%d", name, call))
			if !bytes.Contains(read(victim+".trace"), []byte("INJECTED")) { // strace counts the calls of each thread
				continue
			}
			what := fmt.Sprintf("%s: %s at write %d of %d", e.name, name, n+1, len(changes))
			words := map[string]string{"ENOSPC": "no space left", "EIO": "input/output error"}[name]
			judged("a failure is said", err != nil && strings.Contains(out, filepath.Base(victim)) &&
				strings.Contains(out, words), "%s: %v, %.200s", what, err, out)
			all = append(all, state{fmt.Sprintf("%s at write %d of %d", name, n+1, len(changes)), read(victim)})
		}
	}
	taken := 0
	for i, s := range all {
		if !strings.HasPrefix(s.what, "E") && e.chosen(s.what, i)%*share != 0 {
			continue
		}
		taken++
		bad := len(e.failures())
		e.state(s, old, end, []string{oldSays, endSays}, oldView, endView, victim, side, file("x"), file("y"),
			e.chosen("other", i))
		if *keep != "" && len(e.failures()) > bad {
			name := strings.NewReplacer(" ", "-", "/", "-").Replace(e.name + "," + s.what)
			os.MkdirAll(filepath.Join(*keep, name), 0o755)
			os.WriteFile(filepath.Join(*keep, name, "state"), s.b, 0o755)
			os.WriteFile(filepath.Join(*keep, name, "old"), old, 0o755)
			os.WriteFile(filepath.Join(*keep, name, "new"), end, 0o755)
		}
	}
	if *verbose {
		fmt.Printf("        %s: %d writes, %d of %d states\n", e.name, len(changes), taken, len(all))
	}
}

// failures are the answers of this edit that were wrong.
func (e *edit) failures() (out []string) {
	mu.Lock()
	defer mu.Unlock()
	for _, l := range failed {
		for _, s := range l {
			if strings.HasPrefix(s, e.name+": ") {
				out = append(out, s)
			}
		}
	}
	return out
}

// left is the first of the texts that are gone after the uninterrupted edit and in a file.
func (e *edit) left(path string) string {
	b := read(path)
	for _, text := range e.gone {
		if bytes.Contains(b, []byte(text)) {
			return text
		}
	}
	return ""
}

// told reports whether one of our programs says that an edit did not come to its end.
func told(out string) bool {
	return strings.Contains(out, "interrupted") || strings.Contains(out, "was stopped")
}

func (e *edit) state(s state, old, end []byte, may []string, oldView, endView, victim, side, x, y string,
	random uint64) {
	what := e.name + ": " + s.what
	place(victim, s.b)
	loads("it loads", what, victim, may)
	tools := [][]string{{"strip"}, {"llvm-strip"}, {"objcopy"}}
	for i, tool := range tools {
		if i > 0 && uint64(i) != 1+random%2 {
			continue
		}
		if _, err := exec.LookPath(tool[0]); err != nil {
			continue
		}
		place(side, s.b)
		if err := exec.Command(tool[0], side).Run(); err != nil {
			judged("stripped, it loads", false, "%s: %s: %v", what, tool[0], err)
			continue
		}
		loads("stripped, it loads", what+", "+tool[0], side, may)
		other := e.others()[random/2%uint64(len(e.others()))]
		if out, err := ours(side, other); err != nil {
			judged("stripped and edited, it loads", false, "%s, %s, %.60v: %v: %.300s", what, tool[0], other, err, out)
			continue
		}
		now := says(side)
		judged("stripped and edited, it loads", !strings.Contains(now, "status") ||
			strings.Contains(now, "cannot open shared object file"), "%s, %s, %.60v: it says %q", what, tool[0], other, now)
	}
	// What is said of it.
	seen, same := view(victim), bytes.Equal(s.b, old) || bytes.Equal(s.b, end)
	for _, command := range []string{"show", "audit"} {
		out, _ := ours(victim, []string{command})
		interrupted := told(out)
		switch {
		case same:
			judged(command+" says nothing of a whole file", !interrupted, "%s: %.200s", what, out)
		case seen != oldView && seen != endView:
			judged(command+" says that an edit was interrupted", interrupted, "%s: %.100s", what, out)
		}
	}
	// While an editor holds its lock.
	if f, err := os.Open(victim); err == nil && !same && seen != oldView && random%4 == 0 {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			panic(err)
		}
		for _, command := range []string{"show", "audit"} {
			out, _ := ours(victim, []string{command})
			judged(command+" says that the file is being edited", strings.Contains(out, "being edited"), "%s: %.200s", what, out)
		}
		f.Close()
	}
	// The same edit again.
	if out, err := ours(victim, e.args); err != nil {
		judged("the same edit again", false, "%s: %v: %.200s", what, err, out)
	} else {
		now, left := view(victim), e.left(victim)
		judged("the same edit again", now == endView && left == "", "%s: left %q; %s", what, left, differ(now, endView))
		loads("edited again, it loads", what, victim, may[1:])
		out, _ := ours(victim, []string{"show"})
		judged("edited again, nothing is said", !told(out), "%s: %.100s", what, out)
	}
	// Another edit leaves what it leaves of the old file or of the new one.
	other := e.others()[random/16%uint64(len(e.others()))]
	place(victim, s.b)
	if out, err := ours(victim, other); err != nil {
		judged("another edit", false, "%s, %v: %v: %.200s", what, other[:3], err, out)
		return
	}
	place(x, old)
	place(y, end)
	_, errX := ours(x, other)
	_, errY := ours(y, other)
	now, ofOld, ofNew, left := view(victim), view(x), view(y), e.left(victim)
	ok := errX == nil && now == ofOld || errY == nil && now == ofNew && left == ""
	judged("another edit", ok, "%s, %.60v: left %q; old: %s; new: %s", what, other, left, differ(now, ofOld),
		differ(now, ofNew))
}

const (
	secret  = "/nix/store/11111111111111111111111111111111-secret/lib"
	renamed = "libwhich-that-has-another-name.so"
)

// build makes the files: programs, and libraries that open opens, by several linkers, which need a library of which
// there is one in each of two folders.
func build() (bases []string) {
	source := map[string]string{
		"which.map": "WHICH_1 { global: which; };\n",
		"prog.c":    "#include <stdio.h>\nconst char *which(void); int main(void) { return puts(which()) < 0; }\n",
		"lib.c":     "const char *which(void); const char *ask(void) { return which(); }\n",
		"open.c": "#include <dlfcn.h>\n#include <stdio.h>\nint main(int c, char **v) { void *h = dlopen(v[1], RTLD_NOW); " +
			"const char *(*ask)(void); " +
			"if (!h || !(ask = (const char *(*)(void))dlsym(h, \"ask\"))) { puts(dlerror()); return 3; } return puts(ask()) < " +
			"0; }\n",
	}
	for name, text := range source {
		place(filepath.Join(work, name), []byte(text))
	}
	must("gcc", "-o", work+"/open", work+"/open.c", "-ldl")
	for _, dir := range []string{"old", "new"} {
		os.MkdirAll(filepath.Join(work, dir), 0o755)
		for _, name := range []string{"libwhich.so", renamed, "libsecret-11111111.so"} {
			says := dir
			if name == renamed {
				says = "renamed"
			}
			place(work+"/which.c", []byte("const char *which(void) { return \""+says+"\"; }\n"))
			must("gcc", "-shared", "-fPIC", "-o", filepath.Join(work, dir, name), work+"/which.c",
				"-Wl,-soname,"+name+",--version-script="+work+"/which.map")
		}
	}
	must("sh", "-c", "ln -s \"$(gcc -print-file-name=ld-linux-x86-64.so.2)\" "+work+
		"/a-loader-of-which-the-name-is-longer-than-that-of-the-other-one.so")
	os.MkdirAll(work+"/named", 0o755)
	os.Symlink(*bin+"/runpath", work+"/named/patchelf")
	link := func(name string, flags ...string) {
		args := append([]string{"-o", filepath.Join(work, name)}, flags...)
		args = append(args, work+"/old/libwhich.so", "-Wl,--enable-new-dtags,--build-id,-rpath,$ORIGIN/old")
		if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
			fmt.Printf("skipped %s: not to be had: %.100s\n", name, out)
			return
		}
		bases = append(bases, name)
	}
	link("prog-pie", work+"/prog.c")
	link("prog-now", work+"/prog.c", "-Wl,-z,now,-z,relro")
	link("prog-nopie", "-no-pie", work+"/prog.c")
	link("prog-lld", "-fuse-ld=lld", work+"/prog.c")
	link("prog-mold", "-fuse-ld=mold", work+"/prog.c")
	link("prog-dense", "-Wl,-z,noseparate-code", work+"/prog.c")
	link("lib-plain.so", "-shared", "-fPIC", work+"/lib.c", "-Wl,-soname,lib-plain.so")
	link("lib-dense.so", "-shared", "-fPIC", work+"/lib.c", "-Wl,-z,noseparate-code,-z,now,-soname,lib-dense.so")
	link("lib-lld.so", "-shared", "-fPIC", "-fuse-ld=lld", work+"/lib.c", "-Wl,-soname,lib-lld.so")
	link("lib-hash.so", "-shared", "-fPIC", work+"/lib.c", "-Wl,--hash-style=sysv,-z,norelro,-soname,lib-hash.so")
	return bases
}

// kinds are edits for programs and libraries; those of one are told by their options.
func kinds() []edit {
	long := "$ORIGIN/new" + strings.Repeat(":/a/directory/that/is/not/there", 100)
	loader := work + "/a-loader-of-which-the-name-is-longer-than-that-of-the-other-one.so"
	set := func(list string) []string { return []string{"set", "-q", list} }
	with := func(args ...string) []string { return append([]string{"edit", "-q"}, args...) }
	note := []string{"cache", "write", "-q"}
	secrets := set("$ORIGIN/old:" + secret)
	return []edit{
		{name: "shorter", args: set("$ORIGIN/new")},
		{name: "longer", args: set(long)},
		{name: "in its room", before: [][]string{set("$ORIGIN/old" + long[11:])}, args: set("$ORIGIN/new:/opt")},
		{name: "last segment", before: [][]string{set("$ORIGIN/old" + long[11:311])}, args: set(long + long)},
		{name: "removed", before: [][]string{secrets}, args: []string{"remove", "-q", secret}, gone: []string{secret}},
		{name: "longer without", before: [][]string{secrets}, args: set(long), gone: []string{secret}},
		{name: "rpath", before: [][]string{{"set", "-q", "--force-rpath", "$ORIGIN/old:" + secret}}, args: set("$ORIGIN/new"),
			gone: []string{secret}},
		{name: "renamed need", args: with("--replace-needed", "libwhich.so="+renamed)},
		{name: "added need", args: with("--add-needed", "libm.so.6")},
		{name: "removed need", before: [][]string{with("--add-needed", "libsecret-11111111.so")},
			args: with("--remove-needed", "libsecret-11111111.so"), gone: []string{"libsecret-11111111.so"}},
		{name: "interpreter", args: with("--interpreter", loader)},
		{name: "soname", args: with("--soname", "lib-"+strings.Repeat("name", 40)+".so")},
		{name: "stack", args: with("--set-execstack")},
		{name: "note", args: note},
		{name: "note and longer", args: []string{"normalize", "-q", "--resolution-note", "--tool", "autoAddDriverRunpath",
			"--driver-link", strings.Repeat("/longer", 400)}},
		{name: "note goes", before: [][]string{note}, args: []string{"cache", "remove", "-q"}},
		{name: "note follows", before: [][]string{note}, args: set("$ORIGIN/new")},
		{name: "note follows, longer", before: [][]string{secrets, note}, args: set(long), gone: []string{secret}},
		{name: "several parts", before: [][]string{secrets}, args: with("--run-path", long, "--replace-needed",
			"libwhich.so="+renamed, "--add-needed", "libm.so.6", "--set-execstack"), gone: []string{secret}},
		{name: "several parts and a note", before: [][]string{secrets, note},
			args: with("--run-path", "$ORIGIN/new:/x", "--add-needed", "libm.so.6", "--interpreter", loader),
			gone: []string{secret}},
		{name: "by patchelf's options", before: [][]string{secrets},
			args: []string{"patchelf", "--set-rpath", long, "--set-os-abi", "linux", "--set-execstack"}, gone: []string{secret}},
		{name: "stack and a note", before: [][]string{set(long), note},
			args: with("--run-path", "$ORIGIN/new", "--clear-execstack")},
	}
}

func main() {
	flag.Parse()
	var err error
	if work, err = os.MkdirTemp("", "states"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(work)
	bases := build()
	var edits []edit
	for i, k := range kinds() {
		// Each kind on two files in a run; which ones, the seed decides.
		fit := slices.DeleteFunc(slices.Clone(bases), func(b string) bool {
			lib := strings.HasPrefix(b, "lib")
			return lib && slices.Contains(k.args, "--interpreter") || !lib && slices.Contains(k.args, "--soname")
		})
		for n := range 2 {
			e := k
			e.base = fit[(int(*seed)+i*3+n*(len(fit)/2))%len(fit)]
			if e.name = k.name + " of " + e.base; strings.Contains(e.name, *only) {
				edits = append(edits, e)
			}
		}
	}
	queue := make(chan *edit)
	var workers sync.WaitGroup
	for n := range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for e := range queue {
				e.judge(fmt.Sprint("worker", n))
			}
		})
	}
	for i := range edits {
		queue <- &edits[i]
	}
	close(queue)
	workers.Wait()
	good, bad := 0, 0
	var questions []string
	for q := range passed {
		questions = append(questions, q)
	}
	for q := range failed {
		if passed[q] == 0 {
			questions = append(questions, q)
		}
	}
	slices.Sort(questions)
	for _, q := range questions {
		if n := len(failed[q]); n > 0 {
			bad++
			fmt.Printf("FAILED  %s: %d of %d states not\n", q, n, n+passed[q])
			for _, f := range failed[q][:min(n, 12)] {
				fmt.Printf("          %.500s\n", f)
			}
			continue
		}
		good++
		fmt.Printf("ok      %s: %d of %d edits\n", q, passed[q], len(edits))
	}
	fmt.Printf("%d passed, %d failed, 0 skipped\n", good, bad)
	if bad > 0 {
		defer os.Exit(1)
	}
}
