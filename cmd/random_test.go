package cmd_test

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

var (
	randomTrees = flag.Int("trees", 4, "how many random trees are edited")
	randomSeed  = flag.Uint64("seed", 1, "of the first random tree")
	randomUser  = flag.Int("user", os.Getuid(), "the `UID` that edits random trees")
	randomTools = flag.String("tools", "", "the directory of the programs that edit random trees")
)

// perTree is how many names a random tree has.
const perTree = 40

// randomBases are the files that are put into random trees, whole or damaged, by name.
func randomBases(t *testing.T) map[string][]byte {
	dir := t.TempDir()
	const library, program = "double cos(double); int dep(void); double f(double x) { return cos(x) + dep(); }", "int dep(void); int main(void) { return dep(); }"
	made := map[string][]byte{}
	for _, c := range []struct{ name, source, flags string }{
		{"libdep.so", "int dep(void) { return 0; }", "-shared -Wl,-soname,libdep.so"},
		{"libcuda.so.1", "int dep(void) { return 0; }", "-shared -Wl,-soname,libcuda.so.1"},
		{"plain.so", library, "-shared -nostdlib libdep.so"},
		{"runpath.so", library, "-shared -nostdlib libdep.so -Wl,--enable-new-dtags,-rpath,/old:/opt/x/stubs:$ORIGIN,-soname,librunpath.so"},
		{"rpath.so", library, "-shared -nostdlib libdep.so -Wl,--disable-new-dtags,-rpath,/old::/old/"},
		{"versions.so", library, "-shared libdep.so -lm -Wl,--enable-new-dtags,-rpath,/old"},
		{"nodefaultlib.so", library, "-shared libdep.so -lm -Wl,--disable-new-dtags,-z,nodefaultlib,-rpath,$ORIGIN"},
		{"audit.so", library, "-shared -nostdlib libdep.so -Wl,--enable-new-dtags,--audit,x.so,-rpath,/old"},
		{"stack.so", library, "-shared -nostdlib libdep.so -Wl,-z,execstack"},
		{"stub.so", library, "-shared -nostdlib libcuda.so.1 -Wl,--enable-new-dtags,-rpath,/any/stubs"},
		{"lld.so", library, "-shared -nostdlib libdep.so -fuse-ld=lld -Wl,--enable-new-dtags,-rpath,/old"},
		{"gold.so", library, "-shared -nostdlib libdep.so -fuse-ld=gold -Wl,--enable-new-dtags,-rpath,/old"},
		{"program", program, "libdep.so -Wl,--enable-new-dtags,-rpath,/old"},
		{"static-pie", "int main(void) { return 0; }", "-static-pie"},
		{"fixed", program, "-no-pie libdep.so -Wl,--disable-new-dtags,-rpath,/old"},
		{"object.o", library, "-c"},
	} {
		cmd := exec.Command("cc", slices.Concat([]string{"-O1", "-fPIC", "-o", c.name, "-xc", "-", "-xnone", "-Wl,--no-as-needed"}, strings.Fields(c.flags))...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(c.source)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Logf("without %s: %v: %s", c.name, err, out)
			continue
		}
		var err error
		if made[c.name], err = os.ReadFile(filepath.Join(dir, c.name)); err != nil {
			t.Fatal(err)
		}
	}
	if made["runpath.so"] == nil || made["program"] == nil {
		t.Skip("nothing can be linked here")
	}
	gpu := slices.Clone(made["runpath.so"])
	gpu[7], gpu[18] = 64, 224 // AMD's code objects: OS ABI 64, machine 224
	made["gpu.hsaco"] = gpu
	return made
}

// damage writes other values into one to three fields of a file's headers, and may cut it off or append something.
func damage(r *rand.Rand, file []byte) []byte {
	b := slices.Clone(file)
	regions := [][2]uint64{{16, 64}}
	if f, err := elf.NewFile(bytes.NewReader(b)); err == nil && len(f.Progs) > 0 {
		for _, p := range f.Progs {
			if p.Type == elf.PT_DYNAMIC {
				regions = append(regions, [2]uint64{p.Off, p.Off + p.Filesz}, [2]uint64{p.Off, p.Off + p.Filesz})
			}
		}
		regions = append(regions, [2]uint64{64, 64 + 56*uint64(len(f.Progs))})
	}
	numbers := []uint64{0, 1, 2, 3, 7, 8, 16, 0x40, 0xff, 0x1000, 0x7fff, 0xffff, 0x7fffffff, 0xffffffff, 1 << 40, 1<<63 - 1, 1<<64 - 1}
	for range 1 + max(0, r.IntN(5)-2) {
		at := regions[r.IntN(len(regions))]
		off := at[0] + 8*uint64(r.IntN(int(at[1]-at[0])/8))
		old := binary.LittleEndian.Uint64(b[off:])
		value := []uint64{numbers[r.IntN(len(numbers))], old + []uint64{1, 8, 4096, ^uint64(0), ^uint64(7)}[r.IntN(5)], uint64(r.IntN(len(b))), uint64(len(b)) + uint64(r.IntN(64))}[r.IntN(4)]
		switch r.IntN(3) {
		case 0:
			binary.LittleEndian.PutUint64(b[off:], value)
		case 1:
			binary.LittleEndian.PutUint32(b[off+4*r.Uint64N(2):], uint32(value))
		case 2:
			binary.LittleEndian.PutUint16(b[off+2*r.Uint64N(4):], uint16(value))
		}
	}
	switch how := r.Float64(); {
	case how < 0.15:
		b = b[:r.IntN(len(b))]
	case how < 0.2:
		b = append(b, make([]byte, 1+r.IntN(9000))...)
	}
	return b
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// plant makes a tree in the working directory, and what is beside it.
func plant(t *testing.T, r *rand.Rand, bases map[string][]byte) {
	t.Helper()
	names := slices.Sorted(maps.Keys(bases))
	var readable fs.FileMode // by this test, which root is in any case
	if os.Getuid() != 0 {
		readable = 0o400
	}
	places := []string{"tree/", "tree/deep/", "tree/deep/er/"}
	for _, dir := range append(places, "outside", "links", "libs", "stubs") {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	errs := []error{os.WriteFile("outside/victim.so", bases["runpath.so"], 0o755), os.WriteFile("links/linked.so", bases["runpath.so"], 0o755),
		os.WriteFile("libs/libdep.so", bases["libdep.so"], 0o755), os.WriteFile("stubs/libcuda.so.1", bases["libcuda.so.1"], 0o755)}
	var made []string
	for i := range perTree {
		path := pick(r, places...) + fmt.Sprintf("%02d", i) + pick(r, "", "", "", "", "", " ", "\n", "\x1b[31m", "'", "-", "\u202e") + pick(r, "", "", "", "\xff", "\x80") + pick(r, ".so", ".so.1", "", ".bin")
		whole := bases[pick(r, names...)]
		switch kind := r.IntN(100); {
		case kind < 35:
			errs = append(errs, os.WriteFile(path, whole, 0o755))
		case kind < 72:
			errs = append(errs, os.WriteFile(path, damage(r, whole), 0o755))
		case kind < 76:
			errs = append(errs, os.WriteFile(path, []byte(pick(r, "", "\x7fELF", "text\n", "#!/bin/sh\n", "\x7fELF\x02\x01\x01"+strings.Repeat("?", r.IntN(2000)), "import ctypes\nctypes.CDLL('libcuda.so.1')\n")), 0o755))
		case kind < 78:
			errs = append(errs, unix.Mkfifo(path, 0o644))
			continue
		case kind < 82:
			errs = append(errs, os.Symlink(pick(r, "../outside/victim.so", "../outside", "deep", "gone", ".", "../../outside/victim.so"), path))
			continue
		case kind < 86 && len(made) > 0:
			errs = append(errs, os.Link(pick(r, made...), path))
			continue
		case kind < 88:
			errs = append(errs, os.Link("links/linked.so", path))
			continue
		case kind < 95 || os.Getuid() != 0:
			errs = append(errs, os.WriteFile(path, whole, 0o755), os.Chmod(path, readable|pick[fs.FileMode](r, 0o444, 0o555, 0o755|fs.ModeSetuid, 0o755|fs.ModeSetgid, 0o600, 0, 0o777)))
		default:
			errs = append(errs, os.WriteFile(path, whole, 0o755), os.Chown(path, pick(r, 0, 1, 65534), pick(r, 0, 1, 65534)), os.Chmod(path, pick[fs.FileMode](r, 0o644, 0o444, 0o666, 0o755|fs.ModeSetuid|fs.ModeSetgid)))
			continue
		}
		made = append(made, path)
		if os.Getuid() == 0 {
			st, err := os.Lstat(path)
			errs = append(errs, err, os.Chown(path, *randomUser, *randomUser), os.Chmod(path, st.Mode()))
		}
	}
	if os.Getuid() == 0 {
		for _, dir := range []string{".", "tree", "tree/deep", "tree/deep/er", "libs"} {
			errs = append(errs, os.Chown(dir, *randomUser, *randomUser))
		}
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// aTool is a command line that edits files.
func aTool(r *rand.Rand, loader string) []string {
	entry := pick(r, "/new", "/"+strings.Repeat("long/", pick(r, 1, 3, 40, 400)), "$ORIGIN/../lib", "/a-b")
	line := pick(r, "stubReplace COPY", "autoAddDriverRunpath COPY", "autoAddDriverRunpath --malformed warn", "autoAddDriverRunpath --when needed --clear-execstack",
		"addCudaCompatRunpath --compat /compat", "runpath set COPY ENTRY", "runpath set --force-rpath ENTRY", "runpath add COPY ENTRY", "runpath add --first ENTRY", "runpath remove COPY /old",
		"runpath remove --all COPY", "runpath shrink", "runpath normalize --tool stubReplace --tool autoAddDriverRunpath COPY", "runpath edit --interpreter ENTRY", "runpath edit COPY --add-needed libnew.so",
		"runpath edit --first --add-needed lib"+strings.Repeat("x", 300)+".so", "runpath edit --remove-needed libdep.so", "runpath edit --replace-needed libdep.so=libother.so", "runpath edit COPY --soname libnew.so",
		"runpath edit --set-execstack", "runpath edit --clear-execstack COPY", "runpath edit COPY --soname libnew.so --run-path ENTRY --add-needed libnew.so --interpreter LOADER --clear-execstack",
		"autoPatchelf COPY --libs libs", "autoPatchelf --append-rpaths ENTRY", "autoPatchelf --libs libs --append-rpaths ENTRY --no-record",
		"autoPatchelf --in-place --libs libs --tool stubReplace --tool autoAddDriverRunpath", "autoPatchelf --libs libs --interpreter LOADER", "autoPatchelf --libs libs --interpreter LOADER --force-rpath",
		"autoPatchelf --libs libs --minimal --dlopen")
	line = strings.NewReplacer("COPY", pick(r, "", "", "--copy"), "ENTRY", entry, "LOADER", loader).Replace(line)
	return append(strings.Fields(line+pick(r, "", "", " --dry-run")), "--json", "--jobs", pick(r, "1", "2", "4"), "tree")
}

// kept is what an edit leaves as it is, of everything below some directories: mode, owner, where a link leads, which special
// file it is; and with contents those of files.
func kept(t *testing.T, withContents bool, dirs ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			var st unix.Stat_t
			if err == nil {
				err = unix.Lstat(path, &st)
			}
			more := ""
			switch {
			case err != nil:
			case e.Type() == fs.ModeSymlink:
				more, err = os.Readlink(path)
			case !e.Type().IsRegular() && !e.IsDir():
				more = fmt.Sprint(st.Ino)
			case withContents && !e.IsDir():
				var b []byte
				b, err = os.ReadFile(path)
				more = string(b)
			}
			all[path] = fmt.Sprintf("%o %d:%d %s", st.Mode, st.Uid, st.Gid, more)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// Random trees, many of whose files are damaged, and random edits: nothing is changed that is not reported, nothing is reported
// that is not changed, and nothing outside of the tree is touched.
//
// tests/hostile runs more of them, as root and as nobody.
func TestRandomTrees(t *testing.T) {
	long(t)
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler: ", err)
	}
	bases := randomBases(t)
	top := t.TempDir()
	for at := top; at != "/"; at = filepath.Dir(at) { // for the other user
		if st, err := os.Stat(at); err == nil && st.Mode()&0o1 == 0 && os.Getuid() == 0 {
			_ = os.Chmod(at, st.Mode()|0o755)
		}
	}
	if err := os.WriteFile(top+"/program", bases["program"], 0o755); err != nil {
		t.Fatal(err)
	}
	loader := look(t, top+"/program").Interpreter
	edited := 0
	for i := range *randomTrees {
		seed := *randomSeed + uint64(i)
		r := rand.New(rand.NewPCG(seed, 0))
		dir := filepath.Join(top, fmt.Sprint(seed))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Chdir(dir)
		plant(t, r, bases)
		args := aTool(r, loader)
		before, outside, state := lookAt(t, "tree"), kept(t, true, "outside", "libs"), kept(t, false, "tree", "links")
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		cmd := exec.CommandContext(ctx, filepath.Join(*randomTools, args[0]), args[1:]...)
		if *randomUser != os.Getuid() {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(*randomUser), Gid: uint32(*randomUser)}}
		}
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		_ = cmd.Run()
		cancel()
		var d document
		status := cmd.ProcessState.ExitCode()
		if err := json.Unmarshal(stdout.Bytes(), &d); err != nil || status != 0 && status != 1 || strings.Contains(stderr.String(), "internal error") || strings.Contains(stderr.String(), "goroutine") {
			t.Errorf("status %d, %v: %.300q %.600s", status, err, stdout.String(), stderr.String())
		}
		after := lookAt(t, "tree")
		agree(t, d, status, before, after, slices.Contains(args, "--dry-run"))
		if diff := cmp.Diff(outside, kept(t, true, "outside", "libs")); diff != "" {
			t.Errorf("outside of the tree: %s", diff)
		}
		now := kept(t, false, "tree", "links")
		for _, f := range d.Files {
			if strings.Contains(f.Reason, "set-group-ID bit is lost") {
				delete(state, f.name())
				delete(now, f.name())
			}
		}
		if diff := cmp.Diff(state, now); diff != "" {
			t.Errorf("modes, owners and links: %s", diff)
		}
		if t.Failed() {
			t.Fatalf("seed %d, user %d, in %s: %q", seed, *randomUser, dir, args)
		}
		for path, c := range before {
			if c.Sum != after[path].Sum {
				edited++
			}
		}
		t.Chdir(top)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d files in %d trees, %d of them edited", *randomTrees*perTree, *randomTrees, edited)
	if edited < *randomTrees {
		t.Error("hardly anything was edited: this tests nothing")
	}
}
