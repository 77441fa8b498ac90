// Command distribution edits a copy of every dynamic ELF file below the
// directories given and checks, from outside, that the copy still is what it was:
// for the loader, for eu-elflint, for strip and llvm-strip run after the edit, for
// a second edit, and, to the judge, byte by byte. Its last line is the closing line of a suite.
package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"cuda-runpath/tests/distribution/oracle"
	"cuda-runpath/tests/judge"
)

var (
	tool   = flag.String("runpath", "runpath", "the `binary` to check")
	every  = flag.Int("every", 1, "check every `N`th file")
	jobs   = flag.Int("jobs", runtime.NumCPU(), "check `N` files at a time")
	budget = flag.Duration("budget", 0, "start no new file after this time")
)

// What is appended to the run path: an entry that fits into the padding or the
// room that most files have, and a list that fits nowhere.
var (
	short = "/o"
	long  = strings.TrimSuffix(strings.Repeat("/nix/store/00000000000000000000000000000000-a-package-1.0/lib:", 80), ":")
)

type result struct {
	path    string
	skipped string   // why the file is not edited
	wrong   []string // what the edit broke
	refused bool
	growth  [2]int64 // of the short and of the long edit
}

func main() {
	flag.Parse()
	if missing := oracle.Have("eu-elflint", "strip", "llvm-strip", "objcopy"); len(missing) > 0 {
		fmt.Println("skipped everything:", strings.Join(missing, ", "), "not installed")
		fmt.Println("0 passed, 0 failed, 1 skipped")
		return
	}
	scratch, err := os.MkdirTemp("", "distribution.")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	defer os.RemoveAll(scratch)

	all := find(flag.Args())
	var files []string
	for i := 0; i < len(all); i += *every {
		files = append(files, all[i])
	}
	fmt.Printf("%d ELF files found, %d to check\n", len(all), len(files))

	started := time.Now()
	var passed, failed, skipped, refused int
	var growth [2][]int64
	reasons := map[string]int{}
	report := func(r result) {
		switch {
		case r.skipped != "":
			skipped++
			reasons[r.skipped]++
			return
		case len(r.wrong) > 0:
			failed++
			for _, w := range r.wrong {
				fmt.Printf("FAILED  %s: %s\n", r.path, w)
			}
			if r.refused {
				refused++
			}
			return
		}
		passed++
		for i := range growth {
			growth[i] = append(growth[i], r.growth[i])
		}
	}
	work, left := make(chan string), 0
	var mu sync.Mutex
	var workers sync.WaitGroup
	for i := range *jobs {
		workers.Go(func() {
			dir := filepath.Join(scratch, fmt.Sprint(i))
			for path := range work {
				r := check(dir, path)
				os.RemoveAll(dir)
				mu.Lock()
				report(r)
				mu.Unlock()
			}
		})
	}
	for _, path := range files {
		if *budget > 0 && time.Since(started) > *budget {
			left++
			continue
		}
		work <- path
	}
	close(work)
	workers.Wait()
	for reason, n := range reasons {
		fmt.Printf("skipped %d: %s\n", n, reason)
	}
	if left > 0 {
		fmt.Printf("%d files were left when the time was over\n", left)
	}
	fmt.Printf("%d files edited, %d refused, in %s\n", passed+failed-refused, refused,
		time.Since(started).Round(time.Second))
	for i, what := range []string{"one short entry more", fmt.Sprintf("%d bytes more", len(long))} {
		if g := growth[i]; len(g) > 0 {
			slices.Sort(g)
			zero, _ := slices.BinarySearch(g, 1)
			fmt.Printf("growth, %-20s median %6d, 90%% %6d, largest %8d bytes; %d of %d files did not grow\n",
				what+":", g[len(g)/2], g[len(g)*9/10], g[len(g)-1], zero, len(g))
		}
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	if failed > 0 || passed == 0 {
		os.RemoveAll(scratch)
		os.Exit(1)
	}
}

// find returns the ELF files below the directories, each inode once; what cannot be read is passed over.
func find(roots []string) (paths []string) {
	seen := map[[2]uint64]bool{}
	for _, root := range roots {
		filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil
			}
			var st syscall.Stat_t
			f, err := os.Open(path)
			if err != nil {
				return nil
			}
			defer f.Close()
			var magic [len(elf.ELFMAG)]byte
			if _, err := io.ReadFull(f, magic[:]); err != nil || string(magic[:]) != elf.ELFMAG ||
				syscall.Fstat(int(f.Fd()), &st) != nil {
				return nil
			}
			if id := [2]uint64{uint64(st.Dev), st.Ino}; !seen[id] {
				seen[id] = true
				paths = append(paths, path)
			}
			return nil
		})
	}
	return paths
}

// A subject is one file under test, with what was known of it before the edit.
type subject struct {
	original string
	dir      string
	file     string // the copy, always of the same name, so that the loader searches the same
	native   bool   // the machine's own loader can list it
	listed   string
	lint     []string
	flags    []string // for edits
	now      string   // the run path as it was set last
}

func check(dir, path string) (r result) {
	r.path = path
	f, err := elf.Open(path)
	if err != nil {
		r.skipped = "debug/elf cannot read it"
		return r
	}
	tag, _ := f.DynValue(elf.DT_RPATH)
	both, _ := f.DynValue(elf.DT_RUNPATH)
	native := f.Machine == nativeMachine && f.Class == nativeClass
	f.Close()

	s := &subject{original: path, dir: dir, file: filepath.Join(dir, filepath.Base(path)), native: native}
	// Which tag a file gets that has none is not the question here.
	s.flags = []string{"--force-runpath"}
	if len(tag) > 0 && len(both) == 0 {
		// DT_RPATH also serves the libraries of libraries; what DT_RUNPATH would find is not the question here either.
		s.flags = []string{"--force-rpath"}
	}
	if err := s.reset(path); err != nil {
		r.wrong = append(r.wrong, err.Error())
		return r
	}
	if why := s.skipped(); why != "" {
		r.skipped = why
		return r
	}
	s.listed, s.lint = s.list(), oracle.Lint(s.file)
	for i, list := range []string{short, long} {
		if i > 0 {
			if err := s.reset(path); err != nil {
				r.wrong = append(r.wrong, err.Error())
				return r
			}
		}
		before, _ := os.Stat(s.file)
		if err := s.edit(list); err != nil {
			r.refused = true
			r.wrong = append(r.wrong, err.Error())
			return r
		}
		after, _ := os.Stat(s.file)
		r.growth[i] = after.Size() - before.Size()
		for _, w := range s.inspect(list) {
			r.wrong = append(r.wrong, fmt.Sprintf("%s [after adding %d bytes]", w, len(list)))
		}
	}
	return r
}

func (s *subject) reset(from string) error {
	os.RemoveAll(s.dir)
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	return oracle.Copy(s.file, from)
}

// skipped returns the reason for which the tool does not edit the file.
func (s *subject) skipped() string {
	r := oracle.Run("", nil, *tool, "add", "--dry-run", "-v", short, s.file)
	if _, why, ok := strings.Cut(r.Err, "skipped: "); ok && r.OK() {
		return strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(why), `"`))
	}
	return ""
}

// edit adds to the run path.
func (s *subject) edit(list string) error {
	if _, before := oracle.RunPath(s.file); before != "" {
		list = before + ":" + list
	}
	return s.set(list)
}

func (s *subject) set(list string) error {
	s.now = list
	args := append(append([]string{"set", "-q", "--keep-empty"}, s.flags...), list, s.file)
	if r := oracle.Run("", nil, *tool, args...); !r.OK() {
		return errors.New("runpath set: " + r.String())
	}
	if _, now := oracle.RunPath(s.file); now != list {
		return fmt.Errorf("readelf finds the run path %.80q and not %.80q", now, list)
	}
	return nil
}

var address = regexp.MustCompile(`\(0x[0-9a-f]+\)`)

// list returns what the loader makes of the copy: status, libraries, complaints.
func (s *subject) list() string { return s.listFile(s.file) }

func (s *subject) listFile(file string) string {
	if !s.native {
		return ""
	}
	// The copy's neighbours are where the original is.
	env := []string{"LD_LIBRARY_PATH=" + filepath.Dir(s.original)}
	r := oracle.Run("/", env, nativeLoader, "--list", file)
	return fmt.Sprintf("status %d %s\n%s%s", r.Status, r.Why, address.ReplaceAllString(r.Out, "(…)"), r.Err)
}

// judge compares the copy with the original, in which nothing but the run path may differ.
func (s *subject) judge() (wrong []string) {
	before, err := judge.Open(s.original)
	if err != nil {
		return []string{err.Error()}
	}
	defer before.Close()
	after, err := judge.Open(s.file)
	if err != nil {
		return []string{err.Error()}
	}
	defer after.Close()
	want := judge.RunPath{Tag: "RUNPATH", List: s.now}
	switch {
	case s.now == "":
		want.Tag = ""
	case slices.Contains(s.flags, "--force-rpath"):
		want.Tag = "RPATH"
	}
	for _, f := range judge.Compare(before, after, judge.Expect{RunPath: &want}) {
		if !f.Remark {
			wrong = append(wrong, f.String())
		}
	}
	return wrong
}

// inspect returns what is wrong with the edited copy.
func (s *subject) inspect(list string) (wrong []string) {
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if now := s.list(); now != s.listed {
		bad("ld.so --list says\n%s\nand said\n%s", now, s.listed)
	}
	if more := oracle.Beyond(oracle.Lint(s.file), s.lint); len(more) > 0 {
		bad("eu-elflint: %q", more)
	}
	for _, w := range s.judge() {
		bad("%s", w)
	}

	keep := s.file + ".edited"
	if err := os.Rename(s.file, keep); err != nil {
		bad("%v", err)
		return wrong
	}
	for _, strip := range [][]string{{"strip"}, {"llvm-strip"}} {
		stripped := func(from string) (string, bool) {
			os.Remove(s.file)
			r := oracle.Run("", nil, strip[0], append(strip[1:], "-o", s.file, from)...)
			return s.list(), r.OK()
		}
		control, can := stripped(s.original)
		if !can || control != s.listed {
			continue // foreign machine, or the tool's own doing
		}
		if now, ok := stripped(keep); !ok || now != s.listed {
			bad("after %s (succeeds: %v) ld.so --list says\n%s\nand said\n%s", strip[0], ok, now, s.listed)
			continue
		}
		if err := s.edit(list + "/2"); err != nil {
			bad("after %s: %v", strip[0], err)
		} else if now := s.list(); now != s.listed {
			bad("after %s and an edit ld.so --list says\n%s\nand said\n%s", strip[0], now, s.listed)
		}
	}
	os.Remove(s.file)
	if err := os.Rename(keep, s.file); err != nil {
		bad("%v", err)
		return wrong
	}
	if err := s.edit(list + "/2"); err != nil {
		bad("second edit: %v", err)
	} else if now := s.list(); now != s.listed {
		bad("after a second edit ld.so --list says\n%s\nand said\n%s", now, s.listed)
	} else {
		for _, w := range s.judge() {
			bad("after a second edit: %s", w)
		}
	}
	_, before := oracle.RunPath(s.original)
	if before == "" {
		before = "/p"
	}
	if err := s.set(before); err != nil {
		bad("with its own run path again: %v", err)
	} else if now := s.list(); now != s.listed {
		bad("with its own run path again ld.so --list says\n%s\nand said\n%s", now, s.listed)
	}
	s.now = ""
	if r := oracle.Run("", nil, *tool, "remove", "--all", "-q", s.file); !r.OK() {
		bad("runpath remove: %v", r)
	} else {
		for _, w := range s.judge() {
			bad("without a run path: %s", w)
		}
	}
	if b, err := os.ReadFile(s.file); err != nil || len(list) > len(short) && bytes.Contains(b, []byte(list)) {
		bad("what was removed is still in the file (%v)", err)
	}
	return wrong
}

var nativeMachine, nativeClass, nativeLoader = native()

// native returns what this machine's programs are, told from /bin/sh.
func native() (elf.Machine, elf.Class, string) {
	f, err := elf.Open("/bin/sh")
	if err != nil {
		return 0, 0, ""
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			b, _ := io.ReadAll(p.Open())
			return f.Machine, f.Class, strings.TrimRight(string(b), "\x00")
		}
	}
	return 0, 0, ""
}
