package elfedit

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cuda-runpath/pkg/elfimage"
)

// says is what the parts of a change are about, as a file says it.
type says struct {
	Tag       elf.DynTag
	List      string
	Interp    string
	Soname    string
	Needed    string
	Stack     elf.ProgFlag
	OSABI     elf.OSABI
	NoDefault bool
	Debug     bool
}

func saysOf(t *testing.T, im *image) (s says) {
	t.Helper()
	var err error
	fail := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	s.Tag, s.List, err = im.RunPath()
	fail(err)
	s.Interp, err = im.Interpreter()
	fail(err)
	s.Soname, err = im.Soname()
	fail(err)
	needed, err := im.Needed()
	fail(err)
	s.Needed = strings.Join(needed, " ")
	s.Stack = im.Prog(elf.PT_GNU_STACK).Flags
	s.OSABI = im.OSABI
	flags, _ := im.Dyn(elf.DT_FLAGS_1)
	s.NoDefault = elf.DynFlag1(flags.Val)&elf.DF_1_NODEFLIB != 0
	_, s.Debug = im.Dyn(elf.DT_DEBUG)
	return s
}

func ptr[T any](v T) *T { return &v }

const storeInterp = "/nix/store/00000000000000000000000000000000-glibc-2.41/lib/ld-linux-x86-64.so.2"

// changes are kinds of change, each with several parts, and what of each a file says afterwards.
var changes = map[string]struct {
	c    Change
	want func(*says)
}{
	"interpreter, longer":  {Change{Interpreter: ptr(storeInterp)}, func(s *says) { s.Interp = storeInterp }},
	"interpreter, shorter": {Change{Interpreter: ptr("/lib/l")}, func(s *says) { s.Interp = "/lib/l" }},
	"interpreter and run path": {Change{Interpreter: ptr(storeInterp), RunPath: &RunPath{elf.DT_RUNPATH, lists[1]}},
		func(s *says) { s.Interp, s.Tag, s.List = storeInterp, elf.DT_RUNPATH, lists[1] }},
	"soname": {Change{Soname: ptr("libsoname.so.4")}, func(s *says) { s.Soname = "libsoname.so.4" }},
	"needed added": {Change{Needed: &Needed{Names: []string{"libadded.so.1", "libc.so.6", "libmore.so"}}},
		func(s *says) { s.Needed = "libadded.so.1 libc.so.6 libmore.so" }},
	"needed replaced": {Change{Needed: &Needed{Names: []string{"/nix/store/x/libc.so.6"}, Renamed: map[string]string{"libc.so.6": "/nix/store/x/libc.so.6"}}},
		func(s *says) { s.Needed = "/nix/store/x/libc.so.6" }},
	"needed twice":   {Change{Needed: &Needed{Names: []string{"libc.so.6", "libc.so.6"}}}, func(s *says) { s.Needed = "libc.so.6 libc.so.6" }},
	"needed removed": {Change{Needed: &Needed{}}, func(s *says) { s.Needed = "" }},
	"stack":          {Change{ExecStack: ptr(true)}, func(s *says) { s.Stack |= elf.PF_X }},
	"OS ABI":         {Change{OSABI: ptr(byte(3))}, func(s *says) { s.OSABI = 3 }},
	"everything": {Change{Interpreter: ptr(storeInterp), RunPath: &RunPath{elf.DT_RPATH, lists[1]}, Soname: ptr("s.so"), NoDefaultLib: true,
		DebugTag: true, OSABI: ptr(byte(9)), ExecStack: ptr(true), Needed: &Needed{Names: []string{"liba.so", "libb.so", "libc.so.6"}}},
		func(s *says) {
			*s = says{elf.DT_RPATH, lists[1], storeInterp, "s.so", "liba.so libb.so libc.so.6", elf.PF_R | elf.PF_W | elf.PF_X, 9, true, true}
		}},
}

// viewOf is a loader's view without what changes are about.
func viewOf(t *testing.T, im *image) string {
	t.Helper()
	var out []string
	for i, line := range strings.Split(mustView(t, im), "\n") {
		if i > 0 && !strings.HasPrefix(line, "needed ") && !strings.HasPrefix(line, "PT_GNU_STACK") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

func TestChangesReadBack(t *testing.T) {
	for name, l := range shapes {
		for what, ch := range changes {
			if ch.c.Interpreter != nil && !l.program {
				continue
			}
			t.Run(name+"/"+what, func(t *testing.T) {
				for _, old := range [][]byte{l.build(t), edit(t, l.build(t), setPath(elf.DT_RUNPATH, "/first/edit:/of/this/file"))} {
					before := parse(t, old)
					want := saysOf(t, before)
					ch.want(&want)
					after := parse(t, edit(t, old, ch.c))
					if got := saysOf(t, after); got != want {
						t.Errorf("says\n%+v\nnot\n%+v", got, want)
					}
					if a, b := viewOf(t, after), viewOf(t, before); a != b {
						t.Errorf("loader sees\n%s\nbefore\n%s", a, b)
					}
					checkSections(t, after)
					if again, err := after.plan(ch.c); again != nil || err != nil {
						t.Errorf("the second plan is %v, %v", again, err)
					}
				}
			})
		}
	}
}

// After each write the dynamic section says what it said before or what it says
// afterwards, all parts at once; the headers switch once as well.
func TestEveryPrefixOfAChangeLoads(t *testing.T) {
	for name, l := range shapes {
		for what, ch := range changes {
			if ch.c.Interpreter != nil && !l.program {
				continue
			}
			t.Run(name+"/"+what, func(t *testing.T) {
				im := parse(t, l.build(t))
				was, view := saysOf(t, im), viewOf(t, im)
				want := was
				ch.want(&want)
				e, err := im.plan(ch.c)
				if err != nil || e == nil {
					t.Fatal(e, err)
				}
				for n, b := range statesOf(t, e) {
					state := parse(t, b)
					if v := viewOf(t, state); strip(v) != strip(view) {
						t.Errorf("after %d of %d writes the loader sees\n%s\nbefore\n%s", n, len(e.writes), v, view)
					}
					got := saysOf(t, state)
					for _, old := range []says{was, want} { // the interpreter, the stack and the OS ABI stand in the headers
						old.Interp, old.Stack, old.OSABI = got.Interp, got.Stack, got.OSABI
						if got == old || l.rpath != "" && l.runpath != "" {
							got = was
							break
						}
					}
					got.Interp, got.Stack, got.OSABI = was.Interp, was.Stack, was.OSABI
					if got != was && !strings.Contains(name, "across pages") {
						t.Errorf("after %d of %d writes the file says %+v", n, len(e.writes), got)
					}
					if what != "everything" && what != "needed replaced" && what != "soname" {
						continue
					}
					checkNextEdit(t, b, fmt.Sprintf("after %d of %d writes and the next edit", n, len(e.writes)))
				}
			})
		}
	}
}

// What a part replaces does not stay in the file.
func TestReplacedNamesAreScrubbed(t *testing.T) {
	const secret = "/nix/store/11111111111111111111111111111111-x/lib"
	for name, l := range shapes {
		for _, c := range []Change{
			{Soname: ptr(secret)}, {Needed: &Needed{Names: []string{secret}}}, {Needed: &Needed{Names: []string{secret + "/a.so", "libc.so.6", secret + "/b.so"}}},
			{Interpreter: ptr(secret)}, {Soname: ptr(secret), Interpreter: ptr(secret), Needed: &Needed{Names: []string{secret}}},
		} {
			if c.Interpreter != nil && !l.program {
				continue
			}
			back := Change{}
			if c.Soname != nil {
				back.Soname = ptr("short.so")
			}
			if c.Needed != nil {
				back.Needed = &Needed{Names: []string{"libc.so.6"}}
			}
			if c.Interpreter != nil {
				back.Interpreter = ptr("/lib/ld.so")
			}
			b := edit(t, l.build(t), c)
			if !bytes.Contains(b, []byte("1111111111")) {
				t.Fatalf("%s: not there", name)
			}
			if b = edit(t, b, back); bytes.Contains(b, []byte("1111111111")) {
				t.Errorf("%s, %+v: the old name is still in the file", name, c)
			}
		}
	}
}

// Many changes of several parts leave a file no larger than a few.
func TestManyChangesDoNotGrow(t *testing.T) {
	for name, l := range shapes {
		if strings.Contains(name, "across pages") || l.bss > 0 {
			continue
		}
		b := l.build(t)
		size := 0
		for i := range 40 {
			c := Change{RunPath: &RunPath{elf.DT_RUNPATH, fmt.Sprintf("/%060d", i)}, Soname: ptr(fmt.Sprintf("lib%07d.so", i)),
				Needed: &Needed{Names: []string{"libc.so.6", fmt.Sprintf("libadded%04d.so", i)}}}
			if l.program {
				c.Interpreter = ptr(fmt.Sprintf("/nix/store/%040d/ld.so", i))
			}
			b = edit(t, b, c)
			if i == 3 {
				size = len(b)
			}
		}
		if len(b) != size {
			t.Errorf("%s: %d bytes after four changes, %d after forty", name, size, len(b))
		}
	}
}

func compile(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("gcc", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("gcc %v: %v\n%s", args, err, out)
	}
}

func editPath(t *testing.T, path string, c Change) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, edit(t, b, c), 0o755); err != nil {
		t.Fatal(err)
	}
}

// A library of which versions are needed gets another name: program and version
// need follow, and the program runs.
func TestRenamedLibraryKeepsItsVersions(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("gcc is not installed")
	}
	if _, err := parse(t, plain().build(t)).plan(Change{Needed: &Needed{Names: []string{"x"}, Renamed: map[string]string{"libc.so.6": strings.Repeat("n", maxPath)}}}); err == nil || !strings.Contains(err.Error(), "PATH_MAX") {
		t.Errorf("a name that no file has: %v", err)
	}
	for _, flags := range [][]string{nil, {"-no-pie"}, {"-Wl,-z,norelro"}, {"-Wl,--hash-style=gnu", "-s"}} {
		dir := t.TempDir()
		write := func(name, text string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		write("dep.c", "int value(void) { return 42; }\n")
		write("dep.map", "DEP_1 { global: value; local: *; };\n")
		write("main.c", "#include <stdio.h>\nint value(void);\nint main(void) { printf(\"%d\\n\", value()); return 0; }\n")
		compile(t, dir, "-shared", "-fPIC", "-Wl,-soname,libdep.so.1", "-Wl,--version-script=dep.map", "-o", "libdep.so.1", "dep.c")
		compile(t, dir, append(slices.Clone(flags), "-o", "prog", "main.c", "libdep.so.1")...)
		prog, renamed := filepath.Join(dir, "prog"), filepath.Join(dir, "librenamed-to-something-longer.so.7")
		if err := os.Rename(filepath.Join(dir, "libdep.so.1"), renamed); err != nil {
			t.Fatal(err)
		}
		editPath(t, renamed, Change{Soname: ptr(filepath.Base(renamed))})
		editPath(t, prog, Change{RunPath: &RunPath{elf.DT_RUNPATH, "$ORIGIN"},
			Needed: &Needed{Names: []string{filepath.Base(renamed), "libc.so.6"}, Renamed: map[string]string{"libdep.so.1": filepath.Base(renamed)}}})
		if out, err := exec.Command(prog).CombinedOutput(); err != nil || string(out) != "42\n" {
			t.Errorf("%v: %v\n%s", flags, err, out)
		}
		b, _ := os.ReadFile(prog)
		if bytes.Contains(b, []byte("libdep.so.1")) && !slices.Contains(flags, "") {
			im := parse(t, b)
			versions, err := im.VersionsNeeded()
			t.Errorf("%v: the old name is still there: %v %v", flags, versions, err)
		}
		path := dir + strings.Repeat("/.", 1800) + "/" + filepath.Base(renamed) // as long as a path may be, and every byte of it is read
		editPath(t, prog, Change{Needed: &Needed{Names: []string{path, "libc.so.6"}, Renamed: map[string]string{filepath.Base(renamed): path}}})
		if out, err := exec.Command(prog).CombinedOutput(); err != nil || string(out) != "42\n" {
			t.Errorf("%v, by a path of %d bytes: %v\n%.200s", flags, len(path), err, out)
		}
		editPath(t, prog, Change{RunPath: &RunPath{elf.DT_RUNPATH, strings.Repeat("/x:", 500) + "$ORIGIN"}, Interpreter: ptr(interpreterOf(t, prog))})
		if out, err := exec.Command(prog).CombinedOutput(); err != nil || string(out) != "42\n" {
			t.Errorf("%v, edited again: %v\n%s", flags, err, out)
		}
	}
}

func interpreterOf(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	im, err := elfimage.Parse(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	s, err := im.Interpreter()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A program with a longer interpreter runs: the kernel and the loader both read it.
func TestLongerInterpreterRuns(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("gcc is not installed")
	}
	for _, flags := range [][]string{nil, {"-no-pie"}, {"-s"}, {"-Wl,-z,separate-code"}, {"-Wl,-z,noseparate-code"}} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "main.c"), []byte("#include <stdio.h>\nint main(void) { puts(\"42\"); return 0; }\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		compile(t, dir, append(slices.Clone(flags), "-o", "prog", "main.c")...)
		prog := filepath.Join(dir, "prog")
		long := filepath.Join(dir, strings.Repeat("long-", 20)+"ld.so")
		if err := os.Symlink(interpreterOf(t, prog), long); err != nil {
			t.Fatal(err)
		}
		for _, interp := range []string{long, interpreterOf(t, prog), dir + "/" + strings.Repeat("./", 1500) + filepath.Base(long), long} {
			editPath(t, prog, Change{Interpreter: ptr(interp), RunPath: &RunPath{elf.DT_RUNPATH, "/some/" + interp}})
			if out, err := exec.Command(prog).CombinedOutput(); err != nil || string(out) != "42\n" {
				t.Errorf("%v, interpreter of %d bytes: %v\n%s", flags, len(interp), err, out)
			}
		}
	}
}

// A file without a PT_GNU_STACK gets one, alone and with a run path: in an unused
// header's place, over padding, or where other things move. Each state on the way loads.
func TestStackHeaderIsAdded(t *testing.T) {
	for name, l := range shapes {
		l.noStack = true
		for what, c := range map[string]Change{
			"clear":          {ExecStack: ptr(false)},
			"set":            {ExecStack: ptr(true)},
			"and a run path": {ExecStack: ptr(false), RunPath: &RunPath{elf.DT_RUNPATH, lists[1]}},
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				for i, old := range [][]byte{l.build(t), edit(t, l.build(t), setPath(elf.DT_RUNPATH, "/first/edit:/of/this/file"))} {
					im := parse(t, old)
					view := viewOf(t, im)
					if l.code && (l.typ != elf.ET_EXEC || i > 0) { // there is no place, and no header to give up its own
						if _, err := im.plan(c); err == nil || !strings.Contains(err.Error(), "after the program headers") {
							t.Errorf("got %v", err)
						}
						continue
					}
					after := parse(t, edit(t, old, c))
					stack := after.Prog(elf.PT_GNU_STACK)
					if stack == nil || stack.Flags&^elf.PF_X != elf.PF_R|elf.PF_W || stack.Flags&elf.PF_X != 0 != *c.ExecStack {
						t.Errorf("PT_GNU_STACK is %+v", stack)
					}
					if _, list, _ := after.RunPath(); c.RunPath != nil && list != c.RunPath.List {
						t.Errorf("the run path is %.60q", list)
					}
					checkSections(t, after)
					if again, err := after.plan(c); again != nil || err != nil {
						t.Errorf("the second plan is %v, %v", again, err)
					}
					for i, st := range states(t, old, c) {
						if v := viewOf(t, parse(t, st)); strip(v) != strip(view) {
							t.Errorf("after %d writes the loader sees\n%s\nbefore\n%s", i, v, view)
						}
					}
				}
			})
		}
	}
}
