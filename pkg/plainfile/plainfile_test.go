package plainfile_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"cuda-runpath/pkg/plainfile"
	"cuda-runpath/pkg/regular"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if name := os.Getenv("PLAINFILE_TEST_LOOP"); name != "" {
		for n := 0; ; n++ {
			_ = plainfile.Write(name, 0o644, bytes.Repeat([]byte{'a' + byte(n%2)}, 64<<10))
		}
	}
	if name := os.Getenv("PLAINFILE_TEST_ONCE"); name != "" {
		if err := plainfile.Write(name, 0o644, make([]byte, 64<<10)); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func put(t *testing.T, name, data string, perm os.FileMode) {
	t.Helper()
	if err := os.WriteFile(name, []byte(data), perm); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, perm); err != nil {
		t.Fatal(err)
	}
}

// memory returns a directory in which nothing waits for a disk, where there is one.
func memory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "plainfile-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func want(t *testing.T, name, data string) {
	t.Helper()
	if b, err := os.ReadFile(name); err != nil || string(b) != data {
		t.Errorf("%s holds %q, %v; want %q", name, b, err, data)
	}
}

func wantOnly(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, e := range entries {
		have = append(have, e.Name())
	}
	if fmt.Sprint(have) != fmt.Sprint(names) {
		t.Errorf("in %s: %q, want %q", dir, have, names)
	}
}

func inode(t *testing.T, name string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(name, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

func TestWriteMakesAFileWithTheUmask(t *testing.T) {
	dir := t.TempDir()
	old := unix.Umask(0o027)
	defer unix.Umask(old)
	name := filepath.Join(dir, "report")
	if err := plainfile.Write(name, 0o666, []byte("new")); err != nil {
		t.Fatal(err)
	}
	want(t, name, "new")
	if info, _ := os.Stat(name); info.Mode() != 0o640 {
		t.Errorf("mode %v, want 0640", info.Mode())
	}
	wantOnly(t, dir, "report")
}

func TestWriteKeepsModeOwnerAndAttributes(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "nix.conf")
	put(t, name, "old and longer", 0o640)
	if os.Geteuid() == 0 {
		if err := os.Chown(name, 1234, 4321); err != nil {
			t.Fatal(err)
		}
	}
	attributes := unix.Setxattr(name, "user.kept", []byte("value"), 0) == nil
	before := inode(t, name)
	if err := plainfile.Write(name, 0o666, []byte("new")); err != nil {
		t.Fatal(err)
	}
	want(t, name, "new")
	if inode(t, name) == before {
		t.Error("written in place: a kill would leave half of it")
	}
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil || st.Mode&0o7777 != 0o640 {
		t.Errorf("mode %o, %v", st.Mode, err)
	}
	if os.Geteuid() == 0 && (st.Uid != 1234 || st.Gid != 4321) {
		t.Errorf("owner %d:%d", st.Uid, st.Gid)
	}
	if attributes {
		b := make([]byte, 64)
		if n, err := unix.Getxattr(name, "user.kept", b); err != nil || string(b[:n]) != "value" {
			t.Errorf("attribute %q, %v", b[:max(n, 0)], err)
		}
	}
	wantOnly(t, dir, "nix.conf")
}

// What the file was allowed to do, its new bytes are not: the kernel takes both away with a write.
func TestWriteKeepsNoPrivilege(t *testing.T) {
	name := filepath.Join(t.TempDir(), "program")
	put(t, name, "old", 0o755|os.ModeSetuid|os.ModeSetgid|os.ModeSticky)
	capability := "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" // cap_net_bind_service=ep, capability(7)
	given := unix.Setxattr(name, "security.capability", []byte(capability), 0)
	if err := plainfile.Write(name, 0o666, []byte("new")); err != nil {
		t.Fatal(err)
	}
	want(t, name, "new")
	if info, _ := os.Stat(name); info.Mode() != 0o755|os.ModeSticky {
		t.Errorf("mode %v", info.Mode())
	}
	if given != nil {
		t.Skipf("security.capability: %v", given)
	}
	if n, err := unix.Getxattr(name, "security.capability", make([]byte, 64)); err == nil {
		t.Errorf("%d bytes of capabilities", n)
	}
}

// A name like the temporary one may be a user's own file.
func TestAUsersOwnFileStays(t *testing.T) {
	dir := memory(t)
	put(t, filepath.Join(dir, ".new-report"), "mine", 0o600)
	for _, data := range []string{"a", "b"} {
		if err := plainfile.Write(filepath.Join(dir, "report"), 0o666, []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	want(t, filepath.Join(dir, "report"), "b")
	want(t, filepath.Join(dir, ".new-report"), "mine")
	wantOnly(t, dir, ".new-report", "report")
}

func TestWriteGivesNobodyNewRights(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "private")
	put(t, name, "old", 0o600)
	if out, err := exec.Command("setfacl", "-d", "-m", "u:1234:rw", dir).CombinedOutput(); err != nil {
		t.Skipf("setfacl: %v: %s", err, out)
	}
	if err := plainfile.Write(name, 0o666, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Getxattr(name, "system.posix_acl_access", nil); err == nil && n > 0 {
		out, _ := exec.Command("getfacl", name).CombinedOutput()
		t.Errorf("the file got an ACL from its directory:\n%s", out)
	}
}

func TestWriteFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "real"), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "real/file"), "old", 0o644)
	for link, target := range map[string]string{"a": "b", "b": "real/file", "dangling": "real/made"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := plainfile.Write(filepath.Join(dir, "a"), 0o666, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if err := plainfile.Write(filepath.Join(dir, "dangling"), 0o666, []byte("made")); err != nil {
		t.Fatal(err)
	}
	want(t, filepath.Join(dir, "real/file"), "new")
	want(t, filepath.Join(dir, "real/made"), "made")
	for _, link := range []string{"a", "b", "dangling"} {
		if _, err := os.Readlink(filepath.Join(dir, link)); err != nil {
			t.Errorf("%s is a link no more", link)
		}
	}
}

func TestWriteIntoAPipe(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	got := make(chan string)
	go func() {
		f, err := os.Open(name)
		if err != nil {
			got <- err.Error()
			return
		}
		defer f.Close()
		b, _ := io.ReadAll(f)
		got <- string(b)
	}()
	long := strings.Repeat("x", 200<<10) // more than a pipe holds
	if err := plainfile.Write(name, 0o666, []byte(long)); err != nil {
		t.Fatal(err)
	}
	if s := <-got; s != long {
		t.Errorf("%d bytes came through, want %d", len(s), len(long))
	}
	if info, _ := os.Lstat(name); info.Mode()&os.ModeNamedPipe == 0 {
		t.Error("the pipe is one no more")
	}
}

func TestWriteIntoADevice(t *testing.T) {
	before := inode(t, "/dev/null")
	if err := plainfile.Write("/dev/null", 0o666, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if inode(t, "/dev/null") != before {
		t.Error("the device is another one")
	}
	if err := plainfile.Write("/dev/full", 0o666, []byte("new")); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("/dev/full: %v", err)
	}
}

func TestWriteKeepsHardLinks(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	put(t, a, "old and longer", 0o644)
	if err := os.Link(a, b); err != nil {
		t.Fatal(err)
	}
	if err := plainfile.Write(a, 0o666, []byte("new")); err != nil {
		t.Fatal(err)
	}
	want(t, a, "new")
	want(t, b, "new")
}

// What can only be written in place is not begun where it cannot be finished.
func TestWriteInPlaceNeedsRoom(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	put(t, a, "old", 0o644)
	if err := os.Link(a, b); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `ulimit -f 16; trap "" XFSZ; exec "$0"`, os.Args[0])
	cmd.Env = append(os.Environ(), "PLAINFILE_TEST_ONCE="+a)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "file too large") {
		t.Errorf("past RLIMIT_FSIZE: %v, %q", err, out)
	}
	want(t, a, "old")
}

func TestWriteWhereItMayNot(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{dir, filepath.Join(dir, "missing/report"), dir + "/new/"} {
		if err := plainfile.Write(name, 0o666, []byte("new")); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	wantOnly(t, dir)
	if os.Geteuid() == 0 {
		t.Skip("root may write everything")
	}
	name := filepath.Join(dir, "read-only")
	put(t, name, "old", 0o444)
	if err := plainfile.Write(name, 0o666, []byte("new")); !errors.Is(err, unix.EACCES) {
		t.Errorf("a read-only file: %v", err)
	}
	want(t, name, "old")
}

func TestReplaceFollowsNothing(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "victim"), "old", 0o600)
	if err := os.Symlink("victim", filepath.Join(dir, "unit")); err != nil {
		t.Fatal(err)
	}
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := plainfile.Replace(d, "unit", 0o644, plainfile.Bytes([]byte("new"))); !errors.Is(err, regular.ErrLink) {
		t.Errorf("a link: %v", err)
	}
	want(t, filepath.Join(dir, "victim"), "old")
	for _, base := range []string{"", ".", "..", "a/b", "../x"} {
		if err := plainfile.Replace(d, base, 0o644, plainfile.Bytes(nil)); err == nil {
			t.Errorf("%q: no error", base)
		}
	}
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	if err := plainfile.Replace(d, "fresh", 0o644, plainfile.Bytes([]byte("new"))); err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(filepath.Join(dir, "fresh")); info.Mode() != 0o644 {
		t.Errorf("mode %v, want 0644 whatever the umask", info.Mode())
	}
}

// What stood in the way before: chmod by the name of the temporary file, which whoever
// owns the directory exchanges for a link.
func TestWriteChangesNoOtherFile(t *testing.T) {
	dir := memory(t)
	victim := filepath.Join(t.TempDir(), "victim")
	put(t, victim, "secret", 0o600)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			entries, _ := os.ReadDir(dir)
			for _, e := range entries {
				if e.Name() == "report" {
					continue
				}
				at := filepath.Join(dir, e.Name())
				os.Remove(at)
				os.Symlink(victim, at)
			}
		}
	}()
	name := filepath.Join(dir, "report")
	for n := range 500 {
		_ = plainfile.Write(name, 0o666, []byte{byte(n)})
		if info, err := os.Lstat(name); err == nil && info.Mode()&os.ModeSymlink != 0 {
			os.Remove(name)
		}
	}
	close(stop)
	<-done
	want(t, victim, "secret")
	if info, _ := os.Stat(victim); info.Mode() != 0o600 {
		t.Errorf("the victim's mode is %v", info.Mode())
	}
}

func TestAKilledWriteLeavesOldOrNew(t *testing.T) {
	dir := memory(t)
	name := filepath.Join(dir, "report")
	put(t, name, strings.Repeat("a", 64<<10), 0o644)
	for range 300 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "PLAINFILE_TEST_LOOP="+name)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3*time.Millisecond + time.Duration(rand.Int64N(int64(4*time.Millisecond))))
		cmd.Process.Kill()
		cmd.Wait()
		b, err := os.ReadFile(name)
		if err != nil || len(b) != 64<<10 || len(bytes.Trim(b, string(b[:1]))) != 0 {
			t.Fatalf("%d bytes, %v: neither the old file nor the new one", len(b), err)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 2 {
		t.Errorf("%d names left, want at most one beside the file", len(entries))
	}
	if err := plainfile.Write(name, 0o644, []byte("c")); err != nil {
		t.Fatal(err)
	}
	wantOnly(t, dir, "report")
}

// Replacing what is no regular file may not open it either: a FIFO's writer would go on.
func TestReplaceOpensNoFIFO(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Skip(err)
	}
	defer unix.Close(watch)
	if _, err := unix.InotifyAddWatch(watch, fifo, unix.IN_OPEN); err != nil {
		t.Skip(err)
	}
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := plainfile.Replace(d, "fifo", 0o600, plainfile.Bytes(nil)); !errors.Is(err, regular.ErrNotRegular) {
		t.Error(err)
	}
	if n, _ := unix.Read(watch, make([]byte, 4096)); n > 0 {
		t.Error("it was opened")
	}
}

// Between the reading of a file and its replacement, another process changes it: that is not lost.
func TestWhatAnotherChangedIsNotReplaced(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "nix.conf")
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for what, change := range map[string]func() error{
		"nothing":     func() error { return nil },
		"other bytes": func() error { return os.WriteFile(name, []byte("theirs"), 0o644) },
		"as many":     func() error { return os.WriteFile(name, []byte("HERE"), 0o644) },
		"and the time set": func() error {
			return errors.Join(os.WriteFile(name, []byte("HERE"), 0o644), os.Chtimes(name, time.Unix(1, 0), time.Unix(1, 0)))
		},
		"another file": func() error { return errors.Join(os.Remove(name), os.WriteFile(name, []byte("here"), 0o644)) },
		"none":         func() error { return os.Remove(name) },
	} {
		put(t, name, "here", 0o644)
		if err := os.Chtimes(name, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		b, read, err := regular.ReadIn(d, "nix.conf", 100)
		if err != nil || string(b) != "here" {
			t.Fatal(b, err)
		}
		time.Sleep(20 * time.Millisecond) // the clock of a file system goes in steps
		if err := change(); err != nil {
			t.Fatal(err)
		}
		theirs, _ := os.ReadFile(name)
		err = plainfile.ReplaceRead(d, "nix.conf", 0o644, plainfile.Bytes([]byte("mine")), read)
		if what == "nothing" {
			if err != nil {
				t.Error(err)
			}
			want(t, name, "mine")
			continue
		}
		if !errors.Is(err, regular.ErrChanged) {
			t.Errorf("%s: %v", what, err)
		}
		if now, _ := os.ReadFile(name); string(now) != string(theirs) {
			t.Errorf("%s: it holds %q", what, now)
		}
	}
	_ = os.Remove(name)
	put(t, name, "made meanwhile", 0o644)
	if err := plainfile.ReplaceRead(d, "nix.conf", 0o644, plainfile.Bytes([]byte("mine")), nil); !errors.Is(err, regular.ErrChanged) {
		t.Error(err)
	}
	want(t, name, "made meanwhile")
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := plainfile.ReplaceRead(d, "nix.conf", 0o644, plainfile.Bytes([]byte("mine")), nil); err != nil {
		t.Error(err)
	}
	want(t, name, "mine")
	wantOnly(t, dir, "nix.conf")
}

// What nobody will take away is gone around, and not waited for; for a locked file a tenth of a second. After a hundred
// names it is said.
func TestWhatIsInTheWay(t *testing.T) {
	dir := memory(t)
	name := filepath.Join(dir, "report")
	temp := filepath.Join(dir, regular.TempName(0, "report"))
	locked := func() error {
		f, err := os.Create(temp)
		if err == nil {
			t.Cleanup(func() { f.Close() })
			err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		}
		return err
	}
	for what, put := range map[string]func() error{
		"a directory":   func() error { return os.Mkdir(temp, 0o755) },
		"a FIFO":        func() error { return unix.Mkfifo(temp, 0o600) },
		"a locked file": locked,
		"a hundred": func() (err error) {
			for try := range 101 {
				err = errors.Join(err, os.Mkdir(filepath.Join(dir, regular.TempName(try, "report")), 0o755))
			}
			return err
		},
	} {
		if err := errors.Join(os.WriteFile(name, []byte("old"), 0o644), put()); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		err := plainfile.Write(name, 0o666, []byte("new"))
		if all := what == "a hundred"; (err != nil) != all || all && !strings.Contains(err.Error(), regular.TempName(100, "report")+" is in the way") {
			t.Errorf("%s: %v", what, err)
		}
		if took := time.Since(begin); took > time.Second || (took < 50*time.Millisecond) == (what == "a locked file") {
			t.Errorf("%s: after %v", what, took)
		}
		want(t, name, map[bool]string{true: "old", false: "new"}[err != nil])
		left, _ := filepath.Glob(dir + "/.*")
		for _, left := range left {
			if err := os.Remove(left); err != nil {
				t.Fatal(err)
			}
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	// In a directory like /tmp, a leftover of another user's can be neither opened nor removed.
	if err := errors.Join(os.Chmod(dir, 0o777|os.ModeSticky), os.Chown(name, 1234, 0), os.WriteFile(temp, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and the thread ends with the goroutine
		if err := unix.Setfsuid(1234); err != nil {
			done <- err
			return
		}
		done <- plainfile.Write(name, 0o666, []byte("theirs"))
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
	want(t, name, "theirs")
}

// A file whose replacement can get no name, as where links are forbidden, stays as it is: who reads it never sees half of one.
func TestWhatGetsNoNameIsNotWrittenInPlace(t *testing.T) {
	dir, err := os.Open(memory(t))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	put(t, filepath.Join(dir.Name(), "report"), "old", 0o644)
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(dir.Name(), "report"), &st); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and the thread ends with the goroutine
		n, err := regular.NewNameless(int(dir.Fd()), "report")
		if err != nil {
			done <- err
			return
		}
		defer n.Close()
		if err = dir.Chmod(0o555); err == nil && os.Geteuid() == 0 {
			err = unix.Setfsuid(1234)
		}
		if err == nil {
			err = plainfile.Rename(n, int(dir.Fd()), "report", &st)
		}
		done <- err
	}()
	if err := <-done; !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) { // with protected_hardlinks, and without
		t.Errorf("%#v", err)
	}
}

// An ordinary user may not take the capabilities even from a file that has none. His files are replaced all the same.
func TestAnOrdinaryUsersFileIsReplaced(t *testing.T) {
	name := filepath.Join(memory(t), "report")
	put(t, name, "old", 0o644)
	was := inode(t, name)
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and the thread ends with the goroutine
		header, none := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
		if err := unix.Capset(&header, &none[0]); err != nil {
			done <- err
			return
		}
		done <- plainfile.Write(name, 0o666, []byte("new"))
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	want(t, name, "new")
	if inode(t, name) == was {
		t.Error("the file was written in place")
	}
}
