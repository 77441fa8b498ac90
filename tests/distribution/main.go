// Command distribution edits a copy of every dynamic ELF file below the
// directories given and checks, from outside, that the copy still is what it was:
// for the loader, for eu-elflint, for strip and llvm-strip run after the edit, for
// a second edit, and byte by byte. Its last line is the closing line of a suite.
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
	"time"

	"cuda-runpath/tests/distribution/oracle"
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
	work, done := make(chan string), make(chan result)
	var wg sync.WaitGroup
	for i := range *jobs {
		wg.Go(func() {
			for path := range work {
				dir := filepath.Join(scratch, fmt.Sprint(i))
				done <- check(dir, path)
				os.RemoveAll(dir)
			}
		})
	}
	left := 0
	go func() {
		for i, path := range files {
			if *budget > 0 && time.Since(started) > *budget {
				left = len(files) - i
				break
			}
			work <- path
		}
		close(work)
		wg.Wait()
		close(done)
	}()

	var passed, failed, skipped, refused int
	var growth [2][]int64
	reasons := map[string]int{}
	for r := range done {
		switch {
		case r.skipped != "":
			skipped++
			reasons[r.skipped]++
			continue
		case len(r.wrong) > 0:
			failed++
			for _, w := range r.wrong {
				fmt.Printf("FAILED  %s: %s\n", r.path, w)
			}
			if r.refused {
				refused++
			}
			continue
		}
		passed++
		for i := range growth {
			growth[i] = append(growth[i], r.growth[i])
		}
	}
	for reason, n := range reasons {
		fmt.Printf("skipped %d: %s\n", n, reason)
	}
	if left > 0 {
		fmt.Printf("%d files were left when the time was over\n", left)
	}
	fmt.Printf("%d files edited, %d refused, in %s\n", passed+failed-refused, refused, time.Since(started).Round(time.Second))
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

// find returns the ELF files below the directories, each inode once.
func find(roots []string) (paths []string) {
	var seen []os.FileInfo
	linked := map[int64][]os.FileInfo{}
	for _, root := range roots {
		filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil
			}
			f, err := os.Open(path)
			if err != nil {
				return nil
			}
			defer f.Close()
			var magic [4]byte
			if _, err := io.ReadFull(f, magic[:]); err != nil || string(magic[:]) != elf.ELFMAG {
				return nil
			}
			st, err := f.Stat()
			if err != nil {
				return nil
			}
			for _, other := range linked[st.Size()] {
				if os.SameFile(st, other) {
					return nil
				}
			}
			linked[st.Size()] = append(linked[st.Size()], st)
			seen = append(seen, st)
			paths = append(paths, path)
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
	if len(tag) > 0 && len(both) == 0 {
		// DT_RPATH also serves the libraries of libraries; what DT_RUNPATH would find is not the question here.
		s.flags = []string{"--force-rpath"}
	}
	if err := s.reset(path); err != nil {
		r.wrong = append(r.wrong, err.Error())
		return r
	}
	if why := s.leftAlone(); why != "" {
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
		if most, err := explained(path, s.file); err != nil || r.growth[i] > most {
			r.wrong = append(r.wrong, fmt.Sprintf("the file grew by %d bytes, and what moved explains %d (%v) [after adding %d bytes]", r.growth[i], most, err, len(list)))
		}
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

// leftAlone returns the reason for which the tool does not edit the file.
func (s *subject) leftAlone() string {
	r := oracle.Run("", nil, *tool, "add", "--dry-run", "-v", short, s.file)
	if _, why, ok := strings.Cut(r.Err, "left alone: "); ok && r.OK() {
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

// inspect returns what is wrong with the edited copy.
func (s *subject) inspect(list string) (wrong []string) {
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if now := s.list(); now != s.listed {
		bad("ld.so --list says\n%s\nand said\n%s", now, s.listed)
	}
	if more := oracle.Beyond(oracle.Lint(s.file), s.lint); len(more) > 0 {
		bad("eu-elflint: %q", more)
	}
	for _, w := range compare(s.original, s.file) {
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
		for _, w := range compare(s.original, s.file) {
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
	if b, err := os.ReadFile(s.file); err != nil || len(list) > len(short) && bytes.Contains(b, []byte(list)) {
		bad("what was removed is still in the file (%v)", err)
	}
	return wrong
}

// page is what alignment may cost an edit, in bytes.
const page = 4096

// explained returns the bytes by which an edit may make a file larger: what now stands elsewhere in it (the string table,
// the sections that made room, the section headers and their names), and a page.
func explained(original, copied string) (int64, error) {
	a, err := elf.Open(original)
	if err != nil {
		return 0, err
	}
	defer a.Close()
	b, err := elf.Open(copied)
	if err != nil {
		return 0, err
	}
	defer b.Close()
	most := int64(page)
	if size, err := b.DynValue(elf.DT_STRSZ); err == nil && len(size) > 0 {
		most += int64(size[0])
	}
	header := int64(64)
	if b.Class == elf.ELFCLASS32 {
		header = 40
	}
	most += header * int64(len(b.Sections))
	for i, s := range b.Sections {
		if s.Type != elf.SHT_NOBITS && i < len(a.Sections) && s.Offset != a.Sections[i].Offset && s.Name != ".dynstr" {
			most += int64(s.FileSize)
		}
	}
	return most, nil
}

// edited are the sections that an edit changes by its nature: they are compared by
// meaning, not by content.
var edited = map[string]bool{".dynamic": true, ".dynstr": true, ".shstrtab": true, ".symtab": true}

// compare returns the differences that an edit must not make between a file and
// its edited copy.
func compare(original, copied string) (wrong []string) {
	a, err := elf.Open(original)
	if err != nil {
		return []string{err.Error()}
	}
	defer a.Close()
	b, err := elf.Open(copied)
	if err != nil {
		return []string{err.Error()}
	}
	defer b.Close()
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }

	x, y := a.FileHeader, b.FileHeader
	if x.ByteOrder = y.ByteOrder; x != y {
		bad("ELF header %+v became %+v", x, y)
	}
	more := b.Sections[min(len(a.Sections), len(b.Sections)):]
	if len(a.Sections) > len(b.Sections) || len(more) > 0 && !isAnchor(b, more) {
		bad("%d sections became %d", len(a.Sections), len(b.Sections))
		return wrong
	}
	for i, s := range a.Sections {
		t := b.Sections[i]
		if s.Name != t.Name || s.Type != t.Type || s.Link != t.Link || s.Info != t.Info || s.Entsize != t.Entsize {
			bad("section %d: %+v became %+v", i, s.SectionHeader, t.SectionHeader)
			continue
		}
		if edited[s.Name] || s.Type == elf.SHT_NULL || s.Type == elf.SHT_NOBITS || s.Type == elf.SHT_DYNAMIC || s.Type == elf.SHT_DYNSYM {
			continue
		}
		if s.FileSize != t.FileSize || !sameBytes(s, t) {
			bad("the bytes of section %s changed", s.Name)
		}
	}
	for _, p := range a.Progs {
		if !slices.ContainsFunc(b.Progs, func(q *elf.Prog) bool { return p.Type == q.Type && p.Flags == q.Flags }) && !replaceable(p.Type) {
			bad("program header %v %v is gone", p.Type, p.Flags)
		}
	}

	// By meaning: symbols with their versions, what is needed, and every dynamic tag but the ones that the edit is about.
	sa, ea := dynamicSymbols(a)
	sb, eb := dynamicSymbols(b)
	if (ea == nil) != (eb == nil) || !slices.Equal(sa, sb) {
		bad("the dynamic symbols changed (%v, %v)", ea, eb)
	}
	ta, _ := a.Symbols()
	tb, _ := b.Symbols()
	if !slices.EqualFunc(ta, tb, func(p, q elf.Symbol) bool {
		return p.Name == q.Name && p.Info == q.Info && p.Section == q.Section && p.Size == q.Size
	}) {
		bad(".symtab changed")
	}
	for _, tag := range []elf.DynTag{elf.DT_NEEDED, elf.DT_SONAME} {
		na, _ := a.DynString(tag)
		nb, _ := b.DynString(tag)
		if !slices.Equal(na, nb) {
			bad("%v %q became %q", tag, na, nb)
		}
	}
	for tag := elf.DynTag(1); tag < 38; tag++ {
		switch tag {
		case elf.DT_NEEDED, elf.DT_SONAME, elf.DT_RPATH, elf.DT_RUNPATH, elf.DT_STRTAB, elf.DT_STRSZ, elf.DT_HASH, elf.DT_SYMTAB, elf.DT_FLAGS:
			continue
		}
		va, _ := a.DynValue(tag)
		vb, _ := b.DynValue(tag)
		if !slices.Equal(va, vb) {
			bad("%v %#x became %#x", tag, va, vb)
		}
	}
	return wrong
}

// isAnchor tells the one section that an edit may add to a program that is not PIE: the hole behind its program headers.
func isAnchor(f *elf.File, more []*elf.Section) bool {
	s := more[0]
	if f.Type != elf.ET_EXEC || len(more) > 1 || s.Name != "dynstr" || s.Flags != elf.SHF_ALLOC {
		return false
	}
	content, err := s.Data()
	return err == nil && len(bytes.Trim(content, "\x00")) == 0
}

// dynamicSymbols returns the dynamic symbols. The value of _DYNAMIC, which FreeBSD's programs export, counts from where
// .dynamic is.
func dynamicSymbols(f *elf.File) ([]elf.Symbol, error) {
	symbols, err := f.DynamicSymbols()
	d := f.SectionByType(elf.SHT_DYNAMIC)
	for i := range symbols {
		if s := &symbols[i]; s.Name == "_DYNAMIC" && d != nil {
			s.Value -= d.Addr
		}
	}
	return symbols, err
}

// replaceable are the headers whose entry may be taken over: each says what another one says too, or nothing.
func replaceable(t elf.ProgType) bool {
	return t == elf.PT_NULL || t == elf.PT_PHDR || t == elf.PT_GNU_PROPERTY
}

func sameBytes(s, t *elf.Section) bool {
	// Open unpacks what is compressed; ReaderAt is nil there.
	p, q := make([]byte, 1<<16), make([]byte, 1<<16)
	x, y := s.Open(), t.Open()
	for {
		n, xerr := io.ReadFull(x, p)
		m, yerr := io.ReadFull(y, q)
		if !bytes.Equal(p[:n], q[:m]) {
			return false
		}
		if xerr != nil || yerr != nil {
			return xerr == yerr
		}
	}
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
