package cmd_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/cli/hostdriver"
	"cuda-runpath/pkg/cli/programs"
	"cuda-runpath/pkg/cli/urfave"
	"cuda-runpath/tests/hosttest"
)

// carryOut runs a command line and returns its exit status: a tool's by what its main function calls, in this process, for
// to start one takes longer than most of what is tried here. Scripts, and tests of signals and terminals, start processes.
func carryOut(stdout, stderr io.Writer, line ...string) (status int) {
	ours := line[0] == "hostDriver" || slices.ContainsFunc(programs.All(), func(p programs.Program) bool { return p.Name == line[0] })
	if !ours || line[0] == "hostDriver" && slices.Contains(line, "run") { // which becomes another program
		cmd := exec.Command(line[0], line[1:]...)
		cmd.Stdout, cmd.Stderr = stdout, stderr
		if err := cmd.Run(); cmd.ProcessState == nil {
			fmt.Fprintln(stderr, err)
			return -1
		}
		return cmd.ProcessState.ExitCode()
	}
	defer func() { // what edits ignores SIGPIPE, and what is started next would, too
		all := make(chan os.Signal, 1)
		signal.Notify(all, unix.SIGPIPE)
		signal.Stop(all)
	}()
	if line[0] == "hostDriver" {
		return hostdriver.Run(line, stdout, stderr)
	}
	return programs.Run(line, stdout, stderr, urfave.Run)
}

// combined runs a command line and returns what it prints, in one, and its exit status.
func combined(line ...string) (out string, status int) {
	var both locked
	status = carryOut(&both, &both, line...)
	return both.String(), status
}

// onlyStdout runs a command line and returns what it prints to stdout: the status says that there are findings.
func onlyStdout(line ...string) []byte {
	var stdout, stderr locked
	carryOut(&stdout, &stderr, line...)
	return stdout.Bytes()
}

// locked is a buffer that several may write to.
type locked struct {
	sync.Mutex
	bytes.Buffer
}

func (b *locked) Write(p []byte) (int, error) {
	b.Lock()
	defer b.Unlock()
	return b.Buffer.Write(p)
}

// compiled are files that the C compiler has made, by its arguments and by what is in the files among these.
var compiled sync.Map

// compile runs the C compiler with the output file in path, or takes what it made of the same.
func compile(path string, args ...string) error {
	key := sha256.New()
	for _, arg := range args {
		fmt.Fprintf(key, "%s\x00", arg)
		for name := range strings.SplitSeq(arg, ",") { // -Wl,libb.so.1
			if data, err := os.ReadFile(name); err == nil {
				fmt.Fprintf(key, "%d\x00%s", len(data), data)
			}
		}
	}
	made, known := compiled.Load(string(key.Sum(nil)))
	if !known {
		if out, err := exec.Command("cc", append([]string{"-o", path}, args...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		data, err := os.ReadFile(path)
		compiled.Store(string(key.Sum(nil)), data)
		return err
	}
	_ = os.Remove(path) // it may be another name of a file, as with the linker
	return os.WriteFile(path, made.([]byte), 0o755)
}

// thing is what there is under a name.
type thing struct {
	unix.Stat_t
	leads      string // of a link
	data       string // of a file
	capability []byte
}

// things are all that there is below a directory, by name: its own first, which is ".".
func things(t *testing.T, dir string) (names []string, all map[string]thing) {
	t.Helper()
	all = map[string]thing{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var one thing
		err = unix.Lstat(path, &one.Stat_t)
		switch {
		case err != nil:
			return err
		case e.Type() == fs.ModeSymlink:
			one.leads, err = os.Readlink(path)
		case e.Type().IsRegular():
			var data []byte
			data, err = os.ReadFile(path)
			one.data = string(data)
			room := make([]byte, 64)
			if n, err := unix.Lgetxattr(path, "security.capability", room); err == nil {
				one.capability = room[:n]
			}
		}
		name, _ := filepath.Rel(dir, path)
		names, all[name] = append(names, name), one
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names, all
}

// snapshot returns what makes the working directory as it is now: what is not as it was is made anew.
func snapshot(t *testing.T) func() {
	t.Helper()
	names, kept := things(t, ".")
	last := maps.Clone(kept) // as it was when all was in order
	return func() {
		t.Helper()
		_, now := things(t, ".")
		changed := map[uint64]bool{} // by inode: the names of a file become one again
		for _, name := range names {
			is, there := now[name]
			was := last[name]
			if kept[name].Mode&unix.S_IFMT != unix.S_IFDIR && (!there || is.Ino != was.Ino || is.Ctim != was.Ctim || is.data != was.data) {
				changed[kept[name].Ino] = true
			}
		}
		var errs []error
		remove := func(name string) {
			errs = append(errs, writable(filepath.Dir(name)), os.RemoveAll(name))
		}
		for name, is := range now {
			if was, known := kept[name]; !known || was.Mode&unix.S_IFMT != is.Mode&unix.S_IFMT || changed[was.Ino] {
				remove(name)
			}
		}
		made := map[uint64]string{}
		for _, name := range names {
			one := kept[name]
			if _, err := os.Lstat(name); err != nil {
				errs = append(errs, one.put(name, made[one.Ino]))
				made[one.Ino], changed[one.Ino] = name, true
			}
		}
		for _, name := range slices.Backward(names) { // a directory after what is in it, which changes its time
			one := kept[name]
			if changed[one.Ino] || one.Mode&unix.S_IFMT == unix.S_IFDIR {
				errs = append(errs, one.settle(name), unix.Lstat(name, &one.Stat_t))
				last[name] = one
			}
		}
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
}

// put makes it, as another name of a file where that is not "".
func (one *thing) put(name, other string) error {
	switch {
	case other != "":
		return os.Link(other, name)
	case one.Mode&unix.S_IFMT == unix.S_IFDIR:
		return os.Mkdir(name, 0o700)
	case one.Mode&unix.S_IFMT == unix.S_IFLNK:
		return os.Symlink(one.leads, name)
	case one.Mode&unix.S_IFMT == unix.S_IFREG:
		return os.WriteFile(name, []byte(one.data), 0o600)
	case one.Mode&unix.S_IFMT == unix.S_IFCHR:
		return hosttest.Node(name)
	}
	return unix.Mknod(name, one.Mode, 0)
}

// settle gives it the owner, the mode and the time that it had.
func (one *thing) settle(name string) error {
	err := os.Lchown(name, int(one.Uid), int(one.Gid))
	if one.Mode&unix.S_IFMT != unix.S_IFLNK {
		err = errors.Join(err, unix.Chmod(name, one.Mode&0o7777))
	}
	if one.capability != nil {
		err = errors.Join(err, unix.Lsetxattr(name, "security.capability", one.capability, 0))
	}
	return errors.Join(err, unix.UtimesNanoAt(unix.AT_FDCWD, name, []unix.Timespec{one.Atim, one.Mtim}, unix.AT_SYMLINK_NOFOLLOW))
}

// writableAll lets its owner change a tree, and remove it.
func writableAll(dir string) {
	filepath.WalkDir(dir, func(path string, e fs.DirEntry, _ error) error {
		if e != nil && e.IsDir() {
			os.Chmod(path, 0o755)
		}
		return nil
	})
}

// writable lets its owner write a directory.
func writable(dir string) error {
	st, err := os.Stat(dir)
	if err != nil || st.Mode()&0o200 != 0 {
		return nil // or it is gone
	}
	return os.Chmod(dir, st.Mode()|0o200)
}
