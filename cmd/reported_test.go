package cmd_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// contents is what a reader that is not this project's finds in a file.
type contents struct {
	Sum         [sha256.Size]byte
	ELF         bool // it can be read
	Tag         string
	RunPath     []string
	Interpreter string
	Needed      []string
	Soname      string
	Stack       bool // executable
}

// look reads a file with debug/elf, and its dynamic section by hand, for section headers may be damaged or gone. What can be
// read in two ways counts as unreadable.
func look(t *testing.T, path string) (c contents) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c.Sum = sha256.Sum256(b)
	headers := slices.Clone(b)
	if len(headers) >= 64 {
		clear(headers[40:48]) // e_shoff
		clear(headers[60:64]) // e_shnum, e_shstrndx
	}
	f, err := elf.NewFile(bytes.NewReader(headers))
	if err != nil || f.Class != elf.ELFCLASS64 {
		return c
	}
	defer func() {
		if recover() != nil { // it contradicts itself
			c = contents{Sum: c.Sum}
		}
	}()
	strings64 := uint64(0)
	read := func(offset uint64) string {
		if offset > 1<<30 {
			return "nowhere"
		}
		address := strings64 + offset
		found := map[uint64]bool{}
		for _, p := range f.Progs {
			if p.Type == elf.PT_LOAD && p.Vaddr <= address && address-p.Vaddr < p.Filesz {
				found[p.Off+address-p.Vaddr] = true
			}
		}
		for at := range found {
			if rest := b[at:]; len(found) == 1 {
				return string(rest[:bytes.IndexByte(rest, 0)])
			}
		}
		panic("not loaded, or twice")
	}
	var dynamic []elf.Dyn64
	for _, p := range f.Progs {
		switch p.Type {
		case elf.PT_INTERP:
			c.Interpreter = string(bytes.TrimRight(b[p.Off:p.Off+p.Filesz], "\x00"))
		case elf.PT_GNU_STACK:
			c.Stack = p.Flags&elf.PF_X != 0
		case elf.PT_DYNAMIC:
			if dynamic != nil {
				panic("two dynamic sections")
			}
			part := b[p.Off:][:p.Filesz]
			dynamic = make([]elf.Dyn64, len(part)/16)
			if err := binary.Read(bytes.NewReader(part), f.ByteOrder, dynamic); err != nil {
				panic(err)
			}
		}
	}
	if i := slices.IndexFunc(dynamic, func(d elf.Dyn64) bool { return d.Tag == 0 }); i >= 0 {
		dynamic = dynamic[:i]
	}
	seen := map[elf.DynTag]bool{}
	for _, d := range dynamic {
		tag := elf.DynTag(d.Tag)
		if seen[tag] && slices.Contains([]elf.DynTag{elf.DT_STRTAB, elf.DT_SONAME, elf.DT_RPATH, elf.DT_RUNPATH}, tag) {
			panic("twice")
		}
		if seen[tag] = true; tag == elf.DT_STRTAB {
			strings64 = d.Val
		}
	}
	c.RunPath, c.Needed = []string{}, []string{}
	for _, d := range dynamic {
		switch tag := elf.DynTag(d.Tag); tag {
		case elf.DT_NEEDED:
			c.Needed = append(c.Needed, read(d.Val))
		case elf.DT_SONAME:
			c.Soname = read(d.Val)
		case elf.DT_RPATH, elf.DT_RUNPATH:
			if c.Tag != elf.DT_RUNPATH.String() { // which counts alone
				c.Tag, c.RunPath = tag.String(), []string{}
				if list := read(d.Val); list != "" {
					c.RunPath = strings.Split(list, ":")
				}
			}
		}
	}
	c.ELF = true
	return c
}

// lookAt reads all regular files below a directory, by path.
func lookAt(t *testing.T, dir string) map[string]contents {
	t.Helper()
	all := map[string]contents{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			all[path] = look(t, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// reported is an element of "files", of whichever tool.
type reported struct {
	Path        string    `json:"path"`
	PathBytes   string    `json:"path_base64"`
	Action      string    `json:"action"`
	Reason      string    `json:"reason"`
	Tag         string    `json:"tag"`
	Before      []string  `json:"before"`
	After       []string  `json:"after"`
	Changes     *[]change `json:"changes"` // of those that edit other parts
	Interpreter *struct {
		Before string `json:"before"`
		After  string `json:"after"`
	} `json:"interpreter"`
}

// name is the path as it is on the disk.
func (r *reported) name() string {
	if b, err := base64.StdEncoding.DecodeString(r.PathBytes); err == nil && len(b) > 0 {
		return string(b)
	}
	return r.Path
}

type change struct {
	Part   string `json:"part"`
	Before any    `json:"before"`
	After  any    `json:"after"`
}

type document struct {
	Files   []reported `json:"files"`
	Summary struct {
		Edited, Unchanged, Skipped, Failed int
	} `json:"summary"`
}

// run runs a tool and returns its document.
func runReported(t *testing.T, args []string) (d document, status int) {
	t.Helper()
	var stdout, stderr locked
	status = carryOut(&stdout, &stderr, args...)
	if err := json.Unmarshal(stdout.Bytes(), &d); err != nil {
		t.Fatalf("%q: %v: %q\n%s", args, err, stdout.String(), stderr.String())
	}
	return d, status
}

// agree compares a document with what was on the disk and what is.
func agree(t *testing.T, d document, status int, before, after map[string]contents, dryRun bool) {
	t.Helper()
	told := map[string]bool{}
	counts := map[string]int{}
	for _, r := range d.Files {
		r.Path = r.name()
		if told[r.Path] {
			t.Errorf("%s is reported twice", r.Path)
		}
		told[r.Path] = true
		counts[r.Action]++
		was, is := before[r.Path], after[r.Path]
		changed := was.Sum != is.Sum
		if strings.HasPrefix(r.Reason, "the same file as") || !was.ELF && !changed {
			continue
		}
		wrong := func(format string, args ...any) {
			t.Helper()
			t.Errorf("%s: %s\nreported %+v\nbefore %+v\nafter %+v", r.Path, fmt.Sprintf(format, args...), r, was, is)
		}
		switch {
		case r.Action == "edited" && changed == dryRun:
			wrong("it is edited: %v", changed)
		case r.Action == "edited", r.Action == "failed": // the values tell
		case changed:
			wrong("it has other bytes")
		}
		if r.Action == "skipped" || r.Action == "failed" && !changed && len(r.Before)+len(r.After) == 0 && (r.Changes == nil || len(*r.Changes) == 0) { // the tool could not read it
			continue
		}
		if !was.ELF {
			continue
		}
		if !is.ELF {
			wrong("it cannot be read any more")
			continue
		}
		if !slices.Equal(r.Before, was.RunPath) {
			wrong("its run path was another one")
		}
		if !dryRun && (!slices.Equal(r.After, is.RunPath) || r.Tag != is.Tag) {
			wrong("its run path is another one")
		}
		if r.Changes == nil && !dryRun {
			if now := r.Interpreter; (now != nil) != (was.Interpreter != is.Interpreter) || now != nil && (now.Before != was.Interpreter || now.After != is.Interpreter) {
				wrong("its interpreter is another one")
			}
		}
		if r.Changes != nil && !dryRun {
			values := func(c contents) map[string]any {
				return map[string]any{"interpreter": c.Interpreter, "soname": c.Soname, "needed": c.Needed, "execstack": c.Stack, "runpath": c.RunPath}
			}
			a, b := values(was), values(is)
			said := map[string]change{}
			for _, c := range *r.Changes {
				said[c.Part] = c
			}
			for part := range a {
				c, ok := said[part]
				if !ok {
					c = change{part, a[part], a[part]}
				}
				if fmt.Sprint(c.After) != fmt.Sprint(b[part]) || c.Before != nil && fmt.Sprint(c.Before) != fmt.Sprint(a[part]) {
					wrong("%s is another one", part)
				}
			}
		}
	}
	for path := range before {
		if !told[path] && before[path].Sum != after[path].Sum {
			t.Errorf("%s was changed, and nothing says so", path)
		}
		if !told[path] && before[path].ELF && (len(told) > 0 || status == 0) { // else the run did not begin
			t.Errorf("%s is not in the document", path)
		}
	}
	for path := range after {
		if _, ok := before[path]; !ok {
			t.Errorf("%s was made", path)
		}
	}
	if got := d.Summary; counts["edited"] != got.Edited || counts["unchanged"] != got.Unchanged || counts["failed"] != got.Failed || counts["skipped"] > got.Skipped {
		t.Errorf("the summary says %+v, the files %v", got, counts)
	}
	if (counts["failed"] > 0) && status != 1 {
		t.Errorf("status %d", status)
	}
}

// oddTree makes a directory in which good files stand between one of each kind that cannot
// be edited, or that a tool must not edit.
func oddTree(t *testing.T) (busy string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Log("without root, files of others are not tried")
	}
	for _, dir := range []string{"tree/deep", "libs", "stubs", "compat", "odd"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cc := func(path, source string, args ...string) {
		t.Helper()
		if err := os.WriteFile("odd/source.c", []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := compile(path, append([]string{"-fPIC", "odd/source.c", "-Wl,--no-as-needed"}, args...)...); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	const function = "double cos(double); int dep(void); double f(double x) { return cos(x) + dep(); }"
	const program = "int dep(void); int main(void) { return dep(); }"
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	shared(t, "libs/libdep.so", "-Wl,-soname,libdep.so,--defsym,dep=0")
	shared(t, "stubs/libcuda.so.1", "-Wl,-soname,libcuda.so.1,--defsym,dep=0")
	shared(t, "compat/libcuda.so.1", "-Wl,-soname,libcuda.so.1,--defsym,dep=0")
	good := func(name string) {
		shared(t, "tree/"+name, "-Wl,--enable-new-dtags,-rpath,/old:/opt/any/stubs,--no-as-needed,-soname,"+name, "-xnone", "libs/libdep.so")
	}
	for _, c := range "acegikmoqsuwy" {
		good(string(c) + "-good.so")
	}
	cut := func(path string, from string, size int) {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b[:size], 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cut("tree/b-cut.so", "tree/a-good.so", 700)
	shared(t, "tree/b-audit.so", "-Wl,--audit,x.so,--enable-new-dtags,-rpath,/old,--no-as-needed", "-xnone", "libs/libdep.so")
	patchDynamic(t, "tree/b-audit.so", 0x6ffffefc, 0x7fffffff) // DT_AUDIT outside of the string table
	shared(t, "tree/b-needed.so", "-Wl,--no-as-needed,-rpath,/old", "-xnone", "libs/libdep.so")
	patchDynamic(t, "tree/b-needed.so", uint64(elf.DT_NEEDED), 0x7fffffff)
	cc("tree/d-nodefaultlib.so", function, "-shared", "-Wl,-z,nodefaultlib,--disable-new-dtags,-rpath,$ORIGIN", "libs/libdep.so", "-lm")
	cc("tree/d-nodefaultlib2.so", function, "-shared", "-Wl,-z,nodefaultlib,--enable-new-dtags,-rpath,/old", "libs/libdep.so", "-lm")
	cc("tree/f-stub", program, "-Wl,-rpath,"+wd+"/stubs", "stubs/libcuda.so.1")
	cc("tree/f-program", program, "libs/libdep.so", "-Wl,-rpath,"+wd+"/libs")
	cc("tree/f-gone", program, "libs/libdep.so", "-Wl,--dynamic-linker=/gone/ld.so,-rpath,/old")
	cc("tree/h-static", "int main(void) { return 0; }", "-static")
	cc("tree/h-object.o", function, "-c")
	shared(t, "tree/h-both.so", "-Wl,--disable-new-dtags,-rpath,/old,--no-as-needed,-z,execstack", "-xnone", "libs/libdep.so")
	shared(t, "tree/h-missing.so", "-Wl,--no-as-needed,-rpath,/old", "-xnone", "stubs/libcuda.so.1")
	good("j-link.so")
	good("deep/same.so")
	good("l-cap.so")
	if os.Getuid() == 0 {
		_ = os.Chown("tree/l-cap.so", 12345, 12345)
		_ = os.Chmod("tree/l-cap.so", 0o4755)
	}
	for _, err := range []error{os.Link("tree/deep/same.so", "tree/n-same.so"), os.Link("tree/j-link.so", "odd/outside.so"),
		os.Symlink("a-good.so", "tree/p-link.so"), os.Symlink("../odd", "tree/p-outside"), unix.Mkfifo("tree/p-fifo.so", 0o644),
		os.WriteFile("tree/p-text.so", []byte("text"), 0o644), os.Rename("tree/y-good.so", "tree/y-\xff.so"), os.Chmod("tree/w-good.so", 0o444)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	b, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("tree/r-busy", b, 0o755); err != nil {
		t.Fatal(err)
	}
	return "tree/r-busy"
}

// patchDynamic sets the value of the first entry of a tag.
func patchDynamic(t *testing.T, path string, tag, value uint64) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range f.Progs {
		for at := p.Off; p.Type == elf.PT_DYNAMIC && at < p.Off+p.Filesz; at += 16 {
			if f.ByteOrder.Uint64(b[at:]) == tag {
				f.ByteOrder.PutUint64(b[at+8:], value)
				if err := os.WriteFile(path, b, 0o755); err != nil {
					t.Fatal(err)
				}
				return
			}
		}
	}
	t.Fatalf("%s has no entry of tag %#x", path, tag)
}

// What a tool reports is what is on the disk, whatever kinds of files it meets; and a dry run
// says what the run then does.
func TestWhatIsReportedIsOnTheDisk(t *testing.T) {
	long(t)
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler: ", err)
	}
	t.Chdir(t.TempDir())
	name := oddTree(t)
	again := snapshot(t)
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	loader := look(t, "tree/f-program").Interpreter
	for _, line := range []string{
		"stubReplace", "stubReplace --in-place", "autoAddDriverRunpath", "autoAddDriverRunpath --malformed warn", "addCudaCompatRunpath --compat D/compat",
		"runpath set /new", "runpath set --copy /new", "runpath add /new", "runpath add --first /" + strings.Repeat("long/", 400), "runpath remove /old", "runpath remove --all",
		"runpath shrink", "runpath normalize --tool stubReplace --tool autoAddDriverRunpath", "runpath edit --interpreter /new/ld.so", "runpath edit --add-needed libnew.so",
		"runpath edit --remove-needed libdep.so", "runpath edit --replace-needed libdep.so=libother.so", "runpath edit --soname libnew.so", "runpath edit --set-execstack", "runpath edit --clear-execstack",
		"runpath edit --soname libnew.so --run-path /new --add-needed libnew.so --interpreter " + loader,
		"autoPatchelf --libs D/libs", "autoPatchelf --append-rpaths /appended", "autoPatchelf --libs D/libs --append-rpaths /appended --no-record", "autoPatchelf --in-place --libs D/libs --append-rpaths /appended",
		"autoPatchelf --in-place --libs D/libs --tool stubReplace --tool autoAddDriverRunpath", "autoPatchelf --libs D/libs --interpreter " + loader, "autoPatchelf --libs D/libs --interpreter " + loader + " --force-rpath --append-rpaths /appended",
		"autoPatchelf --libs D/libs --minimal --dlopen",
	} {
		t.Run(line, func(t *testing.T) {
			again()
			busy := exec.Command("./"+name, "600")
			if err := busy.Start(); err != nil {
				t.Fatal(err)
			}
			defer busy.Wait()
			defer busy.Process.Kill()
			args := strings.Fields(strings.ReplaceAll(line, "D/", wd+"/"))
			n := 1
			for args[0] == "runpath" && n < len(args) && !strings.HasPrefix(args[n], "-") && !strings.HasPrefix(args[n], "/") && !strings.HasSuffix(args[n], ".so") {
				n++
			}
			with := func(flags ...string) []string { return append(slices.Insert(slices.Clone(args), n, flags...), "tree") }
			before := lookAt(t, "tree")
			outside := lookAt(t, "odd")
			dry, status := runReported(t, with("--json", "--dry-run"))
			agree(t, dry, status, before, lookAt(t, "tree"), true)
			real, status := runReported(t, with("--json"))
			after := lookAt(t, "tree")
			agree(t, real, status, before, after, false)
			if real.Summary.Edited == 0 || real.Summary.Edited > 35 {
				t.Errorf("%+v", real.Summary)
			}
			if !strings.Contains(line, "--in-place") {
				if diff := cmp.Diff(outside, lookAt(t, "odd")); diff != "" {
					t.Errorf("outside of the tree: %s", diff)
				}
			}
			// What only a write shows, a dry run does not know: a program that runs.
			busyOf := func(d document) document {
				for i := range d.Files {
					if d.Files[i].Path == name {
						d.Files[i] = reported{}
					}
				}
				return d
			}
			if diff := cmp.Diff(busyOf(dry).Files, busyOf(real).Files); diff != "" {
				t.Errorf("the dry run says something else (-dry +run):\n%s", diff)
			}
			if args[0] != "autoPatchelf" || strings.Contains(line, "--no-record") {
				return
			}
			undo := []string{"autoPatchelf", "--undo", "--json", "tree"}
			undone, status := runReported(t, undo)
			now := lookAt(t, "tree")
			for i := range undone.Files {
				r := &undone.Files[i]
				r.Path, r.PathBytes = strings.TrimPrefix(r.name(), wd+"/"), ""
			}
			for path, c := range now { // what was not changed is not in the record
				if c.Sum == after[path].Sum && !slices.ContainsFunc(undone.Files, func(r reported) bool { return r.Path == path }) {
					delete(now, path)
					delete(after, path)
				}
			}
			agree(t, undone, status, after, now, false)
			for path, was := range before {
				is := look(t, path)
				if was.Sum = is.Sum; !cmp.Equal(was, is) {
					t.Errorf("%s after --undo: %s", path, cmp.Diff(was, is))
				}
			}
		})
	}
}

// A file that was edited is not called skipped, though the loader takes another of its dynamic sections than an edit does, in
// which it finds nothing: it is asked again where another file fails.
func TestAnEditedFileIsNotSkipped(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := errors.Join(os.Mkdir("tree", 0o755), os.Mkdir("libs", 0o755)); err != nil {
		t.Fatal(err)
	}
	shared(t, "libs/libdep.so", "-Wl,-soname,libdep.so")
	shared(t, "tree/two.so", "-Wl,--build-id,--no-as-needed", "-xnone", "libs/libdep.so")
	b, err := os.ReadFile("tree/two.so")
	if err != nil {
		t.Fatal(err)
	}
	at := binary.LittleEndian.Uint64(b[32:])
	for elf.ProgType(binary.LittleEndian.Uint32(b[at:])) != elf.PT_NOTE {
		at += 56
	}
	binary.LittleEndian.PutUint32(b[at:], uint32(elf.PT_DYNAMIC))
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	program, err := os.ReadFile(sleep)
	if err := errors.Join(err, os.WriteFile("tree/two.so", b, 0o755), os.WriteFile("tree/busy", program, 0o755)); err != nil {
		t.Fatal(err)
	}
	busy := exec.Command("tree/busy", "600")
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	defer busy.Wait()
	defer busy.Process.Kill()
	before := lookAt(t, "tree")
	d, status := runReported(t, []string{"autoPatchelf", "--libs", "libs", "--append-rpaths", "/appended", "--no-record", "--json", "tree"})
	agree(t, d, status, before, lookAt(t, "tree"), false)
}

// A write that fails, at any place, is reported with what the file has then.
func TestWhatIsReportedOfAFileThatCannotBeWritten(t *testing.T) {
	long(t)
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("no strace here: ", err)
	}
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("tree", 0o755); err != nil {
		t.Fatal(err)
	}
	list := "/" + strings.Repeat("long/", 1000)
	for _, name := range []string{"tree/a.so", "tree/b.so", "tree/c.so"} {
		shared(t, name, "-Wl,--enable-new-dtags,-rpath,/old:/other,-soname,lib.so")
	}
	capability := binary.LittleEndian.AppendUint32(nil, 0x02000001) // capabilities(7), revision 2, effective
	capability = append(binary.LittleEndian.AppendUint32(capability, 1<<10), make([]byte, 12)...)
	if err := unix.Setxattr("tree/b.so", "security.capability", capability, 0); err != nil {
		t.Log("without capabilities of files: ", err)
	}
	if err := os.Chmod("tree/c.so", 0o6755); err != nil {
		t.Fatal(err)
	}
	again := snapshot(t)
	before := lookAt(t, "tree")
	for _, line := range []string{"runpath set LIST tree", "runpath set --in-place LIST tree", "runpath edit --soname LIST tree", "autoPatchelf --append-rpaths LIST tree"} {
		for _, fault := range []string{"pwrite64:error=ENOSPC", "ftruncate:error=EIO", "fsetxattr:error=EPERM", "fchmod:error=EPERM", "renameat:error=EIO", "fsync:error=EIO"} {
			for when := 1; when < 30; when++ {
				if err := os.RemoveAll("tree" + ".autopatchelf.json"); err != nil {
					t.Fatal(err)
				}
				again()
				call, _, _ := strings.Cut(fault, ":")
				args := strings.Fields(strings.Replace(line, "LIST", list, 1))
				args = slices.Concat([]string{strace, "-f", "--seccomp-bpf", "-qq", "-o", "../log", "-e", "trace=" + call, "-e", fmt.Sprintf("inject=%s:when=%d", fault, when)},
					args[:len(args)-1], []string{"--json", "--jobs", "1", "tree"})
				d, status := runReported(t, args)
				log, err := os.ReadFile("../log")
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Contains(log, []byte("(INJECTED)")) {
					break
				}
				damaged := false // in place a later write that fails leaves what it leaves, and that is said
				for _, f := range d.Files {
					damaged = damaged || f.Action == "failed" && strings.Contains(f.Reason, "is damaged")
				}
				if strings.Contains(line, "--in-place") && damaged && status == 1 {
					continue
				}
				agree(t, d, status, before, lookAt(t, "tree"), false)
				if t.Failed() {
					t.Fatalf("%s, %s, the %d. time", line, fault, when)
				}
			}
		}
	}
}

// A run that waits for another one ends with the first signal that asks it to, and nothing is
// changed; so it is with --undo.
func TestWaitingForAnotherRunEnds(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("tree", 0o755); err != nil {
		t.Fatal(err)
	}
	shared(t, "tree/a.so", "-Wl,--enable-new-dtags,-rpath,/old")
	tool(t, "autoPatchelf", "-q", "--append-rpaths", "/first", "tree")
	before := lookAt(t, "tree")
	dir, err := os.Open("tree")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		t.Skip(err)
	}
	for _, args := range [][]string{{"autoPatchelf", "--append-rpaths", "/second", "tree/a.so"}, {"autoPatchelf", "--undo", "tree"}} {
		cmd := exec.Command(args[0], args[1:]...)
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(stderr).ReadString('\n')
		if err != nil || !strings.Contains(line, "waiting for another autoPatchelf run on this tree to finish") {
			t.Errorf("%q: %q, %v", args, line, err)
		}
		if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Errorf("%q: status 0", args)
		}
		if diff := cmp.Diff(before, lookAt(t, "tree")); diff != "" {
			t.Error(diff)
		}
	}
}

// So it is of a run that is stopped, however far it has come.
func TestWhatIsReportedOfARunThatIsStopped(t *testing.T) {
	long(t)
	t.Chdir(t.TempDir())
	shared(t, "original.so", "-Wl,--enable-new-dtags,-rpath,/old")
	original, err := os.ReadFile("original.so")
	if err != nil {
		t.Fatal(err)
	}
	cut := 0
	for try := range 3 {
		for i := range 1000 {
			path := fmt.Sprintf("tree/%d/%d.so", i/100, i)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, original, 0o755)); err != nil {
				t.Fatal(err)
			}
		}
		before := lookAt(t, "tree")
		cmd := exec.Command("autoPatchelf", "--json", "--append-rpaths", fmt.Sprintf("/new/%d", try), "--jobs", "1", "tree")
		var stdout bytes.Buffer
		cmd.Stdout = &stdout
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for { // until it edits
			if b, err := os.ReadFile(fmt.Sprintf("tree/0/%d.so", try)); err != nil || !bytes.Equal(b, original) {
				break
			}
			if unix.Kill(cmd.Process.Pid, 0) != nil {
				break
			}
		}
		_ = cmd.Process.Signal(unix.SIGTERM)
		_ = cmd.Wait()
		var d document
		if err := json.Unmarshal(stdout.Bytes(), &d); err != nil {
			t.Fatalf("%v: %q", err, stdout.String())
		}
		agree(t, d, cmd.ProcessState.ExitCode(), before, lookAt(t, "tree"), false)
		if d.Summary.Edited < 1000 {
			cut++
		}
		combined("autoPatchelf", "--undo", "tree")
		for path, was := range before {
			if is := look(t, path); !slices.Equal(was.RunPath, is.RunPath) {
				t.Fatalf("%s has %q after --undo", path, is.RunPath)
			}
		}
	}
	t.Logf("%d of 3 runs were stopped before their end", cut)
}
