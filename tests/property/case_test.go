package property

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"cuda-runpath/tests/distribution/oracle"
	"cuda-runpath/tests/judge"
)

// uncounted is how an edit is refused that cannot tell how many symbols there are.
const uncounted = "neither section headers nor a hash table give the number of dynamic symbols"

// A scenario is one case: a file of a variant, and what is done to it.
type scenario struct {
	v      *variant
	target string
	steps  []step
	dir    string // scratch
}

// newScenario makes up the case of number n of a seed, but for its variant.
func newScenario(seed, n uint64) *scenario {
	if *seqs {
		r := rand.New(rand.NewPCG(seed, n/uint64(len(strips))<<1))
		s := &scenario{target: pick(r, images...)}
		s.steps = append(newSequence(r, s.target), step{args: []string{strips[n%uint64(len(strips))], "FILE"}})
		return s
	}
	r := rand.New(rand.NewPCG(seed, n<<1))
	s := &scenario{target: pick(r, images...)}
	s.steps = newSteps(r, s.target)
	return s
}

// A failure is what our editing broke.
type failure struct {
	step int
	what string
}

// An outcome says how a case ended.
type outcome struct {
	failure *failure
	edits   int    // our steps that were checked
	theirs  string // why the case ended early: the control broke in the same way
}

// play runs the steps and checks the file after each of them.
func (s *scenario) play(steps []step) (outcome, error) {
	var out outcome
	w, err := s.bench("case")
	if err != nil {
		return out, err
	}
	emptied := false // by patchelf: see below
	for i, st := range steps {
		fail := func(format string, args ...any) (outcome, error) {
			out.failure = &failure{i, fmt.Sprintf(format, args...)}
			return out, nil
		}
		old, err := os.ReadFile(w.file)
		if err != nil {
			return out, err
		}
		before, err := judge.Read(old)
		if err == nil {
			err = before.Damaged()
		}
		if err != nil {
			// patchelf 0.14 leaves the string table of an ET_EXEC file in no segment, eu-strip cuts a segment off. It may
			// run all the same, but to refuse it is right.
			out.theirs = "another tool has damaged it: " + err.Error()
			return out, nil
		}
		emptyBefore := emptySegment(w.file)
		info, err := os.Stat(w.file)
		if err != nil {
			return out, err
		}
		if st.left {
			side, err := os.ReadFile(w.side)
			if err != nil {
				continue // it could not be split off
			}
			if err := w.do(st); err != nil {
				return fail("a debug file: %v", err)
			}
			if now, err := os.ReadFile(w.side); err != nil || !bytes.Equal(side, now) {
				return fail("a debug file was changed (%v)", err)
			}
			continue
		}
		var lintBefore map[string]int
		if lints(steps[:i+1]) {
			if lintBefore, err = lint(w.file); err != nil {
				return out, err
			}
		}
		err = w.do(st)
		if errors.Is(err, exec.ErrNotFound) {
			return out, err
		}
		if err != nil {
			if st.ours && !before.Counted() && strings.Contains(err.Error(), uncounted) {
				continue // refused: nobody can tell what refers to what would have to move
			}
			if st.ours {
				return fail("%v", err)
			}
			if c, cerr := s.control(steps[:i+1]); cerr != nil {
				return out, cerr
			} else if c.refused == nil {
				if c, cerr := s.controlByPatchelf(steps[:i+1]); cerr != nil {
					return out, cerr
				} else if c != nil && c.refused != nil {
					out.theirs = "with patchelf in place of our steps it breaks too: " + st.String()
					return out, nil
				}
				if strings.Contains(err.Error(), "virtual address space underrun") {
					// It wants pages before a program that is not PIE and stands too low, as it does without our steps
					// for a longer string. It says so and leaves the file as it is.
					out.theirs = "patchelf finds no addresses before the program: " + st.String()
					return out, nil
				}
				if isPatchelf(st) && strings.Contains(err.Error(), "data offset extends past file end") && zerosPastTheEnd(w.file) {
					// It reads a NOBITS section as if it had bytes, at the sh_offset that mold leaves 0. The control has
					// nothing to do here, or a larger file; on the file as it was linked and stripped any change is refused.
					out.theirs = "patchelf reads zeros after the end of the file: " + st.String()
					return out, nil
				}
				return fail("%v, but not without our steps", err)
			}
			continue // refused with and without us; do has put the old file back
		}
		emptied = emptied || isPatchelf(st) && !emptyBefore && emptySegment(w.file)
		if stdout, err := run(w.dir); err != nil || stdout != s.v.stdout {
			if err == nil {
				err = fmt.Errorf("it printed %q instead of %q", stdout, s.v.stdout)
			}
			if !st.ours {
				if isPatchelf(st) && versionsLeftBehind(w.file) {
					out.theirs = "patchelf left DT_VERDEF behind: " + st.String()
					return out, nil
				}
				if emptied && !isPatchelf(st) {
					// To a segment without a section strip and objcopy give an offset that does not fit its address.
					out.theirs = "patchelf had moved all out of a segment: " + st.String()
					return out, nil
				}
				if before.HeadersAt() != 64 && !isPatchelf(st) {
					// patchelf 0.15 and newer moves the program headers to the end, and strip and objcopy write them back
					// after the ELF header, over what is there.
					out.theirs = "patchelf had moved the program headers: " + st.String()
					return out, nil
				}
				c, cerr := s.control(steps[:i+1])
				if cerr != nil {
					return out, cerr
				}
				if stdout, cerr := run(c.dir); cerr != nil || stdout != s.v.stdout {
					out.theirs = "without our steps it breaks too: " + st.String()
					return out, nil
				}
				if c, err := s.controlByPatchelf(steps[:i+1]); err != nil {
					return out, err
				} else if c != nil {
					if stdout, err := run(c.dir); err != nil || stdout != s.v.stdout {
						out.theirs = "with patchelf in place of our steps it breaks too: " + st.String()
						return out, nil
					}
				}
			}
			return fail("it does not run: %v", err)
		}
		if lints(steps[:i+1]) {
			now, err := lint(w.file)
			if err != nil {
				return out, err
			}
			if slices.ContainsFunc(steps[:i], isPatchelf) {
				// patchelf makes a writable segment for .dynamic, which may have to move out of it again.
				delete(now, "loadable segment N is writable but contains no writable sections")
			}
			if !st.ours && dynamicAfterRelro(w.file) {
				// Where PT_GNU_RELRO begins with .dynamic and that has moved away, objcopy lets it begin with the next section
				// and keeps its size.
				delete(now, "GNU_RELRO segment not contained in a loaded segment")
			}
			if worse := worse(lintBefore, now); worse != "" && !st.ours {
				for _, control := range []func([]step) (*bench, error){s.control, s.controlByPatchelf} {
					c, err := control(steps[:i+1])
					if err != nil {
						return out, err
					}
					if c == nil {
						continue
					}
					messages, err := lint(c.file)
					if err != nil {
						return out, err
					}
					for m, n := range messages {
						lintBefore[m] = max(lintBefore[m], n)
					}
				}
			}
			if worse := worse(lintBefore, now); worse != "" {
				return fail("eu-elflint: %s", worse)
			}
		}
		if !st.ours {
			continue
		}
		edited, err := os.ReadFile(w.file)
		if err != nil {
			return fail("%v", err)
		}
		after, err := judge.Read(edited)
		if err != nil {
			return fail("%v", err)
		}
		if what := judged(st, before, after, string(old), steps[:i]); what != "" {
			return fail("%s", what)
		}
		if now, err := os.Stat(w.file); err != nil || now.Mode() != info.Mode() {
			return fail("the mode was %v: %v", info.Mode(), err)
		}
		if err := w.do(st); err != nil {
			if st.parts != nil && st.parts.again && !after.Counted() && strings.Contains(err.Error(), uncounted) {
				continue // the second time asks for more than the first, as a library added twice does
			}
			return fail("done once more: %v", err)
		}
		if again, err := os.ReadFile(w.file); err != nil || st.args[1] != "add" && (st.parts == nil || !st.parts.again) && !bytes.Equal(edited, again) {
			return fail("done once more it changes the file (%v)", err)
		}
		out.edits++
	}
	return out, nil
}

// judged asks the judge whether anything is another one than a step of ours, after some others, asks for. text is the file
// before it.
func judged(st step, before, after *judge.File, text string, earlier []step) string {
	// Texts that may make room: what our steps have written, and store paths, which are in these files only by run path
	// edits. "patchelf --remove-rpath" leaves their text behind.
	var ours []string
	for _, e := range earlier {
		if e.parts != nil {
			for _, a := range e.args[1:] {
				ours = append(ours, a, a[strings.Index(a, "=")+1:])
			}
		}
	}
	for s := range strings.SplitSeq(text, "\x00") {
		if (strings.Contains(s, "/nix/store/") || strings.Contains(s, driverLink)) && len(s) < 1<<16 {
			ours = append(ours, s)
		}
	}
	// Over the hole that a moved table leaves in an ET_EXEC file, an edit puts a section that patchelf stops at.
	want := judge.Expect{Reusable: ours, Holes: []string{"dynstr"}}
	if st.want != nil {
		old, tag := before.RunPath()
		want.RunPath = &judge.RunPath{Tag: st.tag, List: strings.Join(st.want(split(old)), ":")}
		switch {
		case st.tool && tag == "RPATH" && want.RunPath.List == old, st.tag == kept && tag != "":
			want.RunPath.Tag = tag // a tool that has nothing to write leaves the tag, too
		case st.tag == kept:
			want.RunPath.Tag = newTag(before)
		}
		if want.RunPath.List == "" {
			_, want.RunPath.Tag = after.RunPath() // patchelf leaves an empty one, which the loader ignores
		}
	}
	if st.parts != nil {
		st.parts.expect(&want, before.Needed())
	}
	var wrong []string
	for _, f := range judge.Compare(before, after, want) {
		if !f.Remark {
			wrong = append(wrong, f.String())
		}
	}
	return strings.Join(wrong, "\n  ")
}

// kept is the tag of a step that says nothing of it.
const kept = "kept"

// newTag is the tag that a file without a run path gets by hand, as the contract has it.
func newTag(f *judge.File) string {
	inherits := f.Interpreter() == "" || f.Soname()
	own := func(name string) bool { return cLibrary.MatchString(name) }
	if inherits && (!allOf(f.Needed(), own) || !f.Counted() || f.Named("dlopen") || f.Named("dlmopen")) {
		return "RPATH"
	}
	return "RUNPATH"
}

// cLibrary is a file of glibc's: of those that the images and the steps can need.
var cLibrary = regexp.MustCompile(`^(lib(c|m|dl|rt|pthread|util|anl|resolv)\.so\.[0-9]+|libBrokenLocale\.so\.1|ld-linux.*)$`)

func allOf(names []string, is func(string) bool) bool {
	return !slices.ContainsFunc(names, func(n string) bool { return !is(n) })
}

func split(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ":")
}

// control replays the steps without ours on the file as it was linked.
func (s *scenario) control(steps []step) (*bench, error) {
	w, err := s.bench("control")
	if err != nil {
		return nil, err
	}
	for _, st := range steps {
		if !st.ours && !st.left {
			w.refused = w.do(st)
		}
	}
	return w, nil
}

// controlByPatchelf replays the steps with patchelf in place of ours. It is asked only where patchelf has its part in a
// sequence anyhow (else it returns nil): what patchelf, and strip after it, make of a file depends on whether there is a
// run path and on the size of the string table, so the control without any edit of the run path does not show all that
// they break by themselves.
func (s *scenario) controlByPatchelf(steps []step) (*bench, error) {
	if !slices.ContainsFunc(steps, isPatchelf) {
		return nil, nil
	}
	w, err := s.bench("control")
	if err != nil {
		return nil, err
	}
	for _, st := range steps {
		if st.left {
			continue
		}
		if st.ours {
			data, err := os.ReadFile(w.file)
			if err != nil {
				return nil, err
			}
			f, err := judge.Read(data)
			if err != nil {
				return w, nil
			}
			old, _ := f.RunPath()
			args := []string{"patchelf"}
			if st.parts != nil {
				args = st.parts.byPatchelf()
			}
			if st.want != nil {
				if list := st.want(split(old)); len(list) == 0 {
					args = append(args, "--remove-rpath")
				} else {
					args = append(args, "--set-rpath", strings.Join(list, ":"))
				}
			}
			if len(args) == 1 {
				continue // nothing that this patchelf can do
			}
			st = step{args: append(args, "FILE")}
		}
		w.refused = w.do(st)
	}
	return w, nil
}

// A bench is a folder with the three images, of which one is a copy to work on.
type bench struct {
	dir, file, side string
	refused         error // of the last command
}

func (s *scenario) bench(name string) (*bench, error) {
	dir := filepath.Join(s.dir, name)
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	for _, image := range images {
		from, to := filepath.Join(s.v.dir, image), filepath.Join(dir, image)
		if image != s.target {
			if err := os.Link(from, to); err != nil {
				return nil, err
			}
			continue
		}
		data, err := os.ReadFile(from)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(to, data, 0o755); err != nil {
			return nil, err
		}
	}
	for _, name := range names[1:] {
		if err := os.Symlink(names[0], filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	return &bench{dir: dir, file: filepath.Join(dir, s.target), side: filepath.Join(dir, "side")}, nil
}

// do runs one step. Where it fails the file is as before.
func (b *bench) do(st step) error {
	old, err := os.ReadFile(b.file)
	if err != nil {
		return err
	}
	if st.payload != nil {
		return os.WriteFile(b.file, append(old, st.payload...), 0o755)
	}
	args := slices.Clone(st.args)
	for i, a := range args {
		switch a {
		case "FILE":
			args[i] = b.file
		case "SIDE":
			args[i] = b.side
		}
	}
	if _, err := output(exec.Command(program(args[0]), args[1:]...)); err != nil {
		if !st.ours { // eu-strip and patchelf may leave half a file
			if err := os.WriteFile(b.file, old, 0o755); err != nil {
				return err
			}
		}
		return err
	}
	return nil
}

// program is where a command is: ours where they were built, patchelf where PATCHELF says.
func program(name string) string {
	switch p := os.Getenv("PATCHELF"); name {
	case ourPatchelf:
		return filepath.Join(bin, ourPatchelf, "patchelf")
	case "runpath", "stubReplace", "autoAddDriverRunpath", "addCudaCompatRunpath":
		return filepath.Join(bin, name)
	case "patchelf":
		if p != "" {
			return p
		}
	}
	return name
}

// run starts the program of a folder as strictly as the loader can, and returns what it prints.
func run(dir string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "./app", "./plugin.so")
	cmd.Dir = dir
	cmd.Env = []string{"LD_BIND_NOW=1", "LD_WARN=1", "LD_LIBRARY_PATH=" + dir + ":" + systemDir()}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := start(cmd); err != nil {
		return "", err
	}
	if err := cmd.Wait(); err != nil {
		return stdout.String(), fmt.Errorf("%w: %s%s", err, stdout.String(), stderr.String())
	}
	if stderr.Len() > 0 {
		return stdout.String(), fmt.Errorf("on stderr: %s", stderr.String())
	}
	return stdout.String(), nil
}

// start starts a command. A file that was just written can be "busy" for a moment: another goroutine's child holds our
// descriptor between its fork and its exec.
func start(cmd *exec.Cmd) error {
	for wait := time.Millisecond; ; wait *= 2 {
		err := cmd.Start()
		if !errors.Is(err, syscall.ETXTBSY) || wait > time.Second {
			return err
		}
		time.Sleep(wait)
		again := exec.Command(cmd.Path, cmd.Args[1:]...)
		again.Args, again.Env, again.Dir, again.Stdout, again.Stderr, again.SysProcAttr = cmd.Args, cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr
		*cmd = *again
	}
}

func isPatchelf(st step) bool { return st.args != nil && st.args[0] == "patchelf" }

// lints reports whether eu-elflint's opinion of the last of the steps matters: patchelf's work has its own complaints, and
// other tools than ours make more of them.
func lints(steps []step) bool {
	last := steps[len(steps)-1]
	return last.ours || last.payload == nil && !last.left && !slices.ContainsFunc(steps, isPatchelf)
}

var numbers = regexp.MustCompile(`\[ *\d+\]|0x[0-9a-f]+|\b\d+\b`)

// lint returns eu-elflint's messages without their numbers, and how often each comes.
func lint(path string) (map[string]int, error) {
	// Its exit status says whether there are any; some go to stderr.
	out, err := exec.Command("eu-elflint", "--gnu-ld", path).CombinedOutput()
	if len(out) == 0 && err != nil {
		return nil, err
	}
	messages := map[string]int{}
	for line := range strings.Lines(strings.ReplaceAll(string(out), path, "FILE")) {
		if line = strings.TrimSpace(line); line != "No errors" && line != "" {
			if m := misplaced.FindStringSubmatch(line); m != nil && noBytes(path, m[1]) {
				continue
			}
			line = staleIndex.ReplaceAllString(oracle.WithoutReason(line), "$1: stale section index")
			messages[numbers.ReplaceAllString(line, "N")]++
		}
	}
	return messages, nil
}

// llvm-strip does not renumber the sections in .dynsym when it drops some, such as those of --emit-relocs. What a stale
// index leads to depends on how many sections there are.
var staleIndex = regexp.MustCompile(`(section \[ *\d+\] '\.dynsym': symbol .*): (?:invalid section index|st_value out of bounds)$`)

// The offset of a section without bytes in the file means nothing. llvm-strip moves an empty one at the very end of
// a segment, such as .tm_clone_table, after the last segment, eu-strip does so with NOBITS sections whose sh_offset mold
// leaves 0; where there is only one segment of data, that is by chance the same place.
var misplaced = regexp.MustCompile(`^section \[ *\d+\] '(.*)' ?(?:: alloc flag set but section not in any loaded segment|not fully contained in segment of program header entry \d+)`)

// noBytes reports whether the section of that name has no bytes in the file, and is mapped in memory all the same.
func noBytes(path, name string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	s := f.Section(name)
	if s == nil || s.Size > 0 && s.Type != elf.SHT_NOBITS {
		return false
	}
	return slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool {
		return p.Type == elf.PT_LOAD && s.Addr >= p.Vaddr && s.Addr+s.Size <= p.Vaddr+p.Memsz
	})
}

// zerosPastTheEnd reports whether a section without bytes would reach beyond the end of the file if it had them.
func zerosPastTheEnd(path string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := os.Stat(path)
	return err == nil && slices.ContainsFunc(f.Sections, func(s *elf.Section) bool {
		return s.Type == elf.SHT_NOBITS && s.Offset+s.Size > uint64(info.Size())
	})
}

// emptySegment reports whether no section is in one of the segments after the headers.
func emptySegment(path string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool {
		return p.Type == elf.PT_LOAD && p.Off > 0 && !slices.ContainsFunc(f.Sections, func(s *elf.Section) bool {
			return s.Flags&elf.SHF_ALLOC != 0 && s.Addr >= p.Vaddr && s.Addr < p.Vaddr+p.Memsz
		})
	})
}

// dynamicAfterRelro reports whether .dynamic is not in the segment that is only read once it has been relocated.
func dynamicAfterRelro(path string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var relro, dynamic *elf.Prog
	for _, p := range f.Progs {
		switch p.Type {
		case elf.PT_GNU_RELRO:
			relro = p
		case elf.PT_DYNAMIC:
			dynamic = p
		}
	}
	return relro != nil && dynamic != nil && (dynamic.Vaddr < relro.Vaddr || dynamic.Vaddr >= relro.Vaddr+relro.Memsz)
}

// versionsLeftBehind reports whether DT_VERDEF does not say where .gnu.version_d stands: patchelf moves that section and
// forgets the entry (NixOS/patchelf 664).
func versionsLeftBehind(path string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	s := f.Section(".gnu.version_d")
	at, err := f.DynValue(elf.DynTag(0x6ffffffc)) // DT_VERDEF
	return s != nil && err == nil && len(at) == 1 && at[0] != s.Addr
}

func worse(before, after map[string]int) string {
	var all []string
	for m, n := range after {
		if n > before[m] {
			all = append(all, m)
		}
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}
