package private

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/host"
	"cuda-runpath/pkg/host/compat"
	"cuda-runpath/pkg/plainfile"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/sysroot"
	"cuda-runpath/tests/hosttest"
)

// withDriver returns a host with a driver, for which nothing was installed.
func withDriver(t *testing.T) (*host.Host, host.Machine) {
	t.Helper()
	m, err := host.MachineNamed("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	return &host.Host{Root: sysroot.Root{Dir: hosttest.Copied("usr/lib64", "535.1.2").Make(t)}}, m
}

// cacheIn returns a cache in a fresh directory, and what it warned of.
func cacheIn(t *testing.T) (*Cache, *[]string) {
	t.Helper()
	c, err := OpenCache(filepath.Join(t.TempDir(), "cache"))
	if err != nil {
		t.Fatal(err)
	}
	warned := &[]string{}
	c.Warn = func(format string, args ...any) { *warned = append(*warned, fmt.Sprintf(format, args...)) }
	return c, warned
}

// Another process that holds the lock and does not go on (it is stopped) is waited for a while, and said.
func TestAStartDoesNotWaitForEver(t *testing.T) {
	defer func(d time.Duration) { plainfile.LockWait = d }(plainfile.LockWait)
	plainfile.LockWait = 300 * time.Millisecond
	h, m := withDriver(t)
	c, warned := cacheIn(t)
	began := time.Now()
	held, err := os.Create(filepath.Join(c.Dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := unix.Flock(int(held.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ready, err := c.Prepare(h, m, nil, compat.Auto)
	if err != nil || len(ready.Offers) != 1 {
		t.Fatalf("%+v, %v", ready, err)
	}
	if len(*warned) != 2 || !strings.Contains((*warned)[0], "waiting for another start") || !strings.Contains((*warned)[1], "going on without") {
		t.Errorf("%q", *warned)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("took %v", took)
	}
}

// Whatever the umask, root's cache is for everybody, and its lock can be opened the next time.
func TestCacheUnderUmasks(t *testing.T) {
	h, m := withDriver(t)
	for _, umask := range []int{0o077, 0o777, 0} {
		c, _ := cacheIn(t)
		old := unix.Umask(umask)
		ready, err := c.Prepare(h, m, nil, compat.Auto)
		if err == nil {
			_, err = c.Stage()
		}
		unix.Umask(old)
		if err != nil {
			t.Fatalf("umask %o: %v", umask, err)
		}
		for at, mode := range hosttest.Modes(t, c.Dir) {
			name, _ := filepath.Rel(c.Dir, at)
			want := fs.FileMode(0o755)
			switch {
			case name == ".":
				if want = 0o700; os.Geteuid() == 0 {
					want = 0o755
				}
			case name == "stage":
				want = 0o700
			case filepath.Dir(name) == ".":
				if !mode.IsDir() {
					want = 0o600
				}
			case !mode.IsDir():
				want = 0o555
			}
			if mode&fs.ModeSymlink == 0 && mode.Perm() != want {
				t.Errorf("umask %o: %s has mode %o, not %o", umask, name, mode.Perm(), want)
			}
		}
		if names := hosttest.Modes(t, ready.Offers[0].Path); len(names) < 5 {
			t.Errorf("the test tests nothing: %v", names)
		}
	}
}

// Root's cache is where others can enter, for a program that gives up being root.
func TestRootsCacheIsNotClosedToOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root")
	}
	top := t.TempDir()
	open, shut := filepath.Join(top, "open"), filepath.Join(top, "shut")
	if err := errors.Join(os.Mkdir(open, 0o755), os.Mkdir(shut, 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Dir(top), top, open} { // whatever the umask
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", shut)
	t.Setenv("XDG_RUNTIME_DIR", open)
	c, err := OpenCache("")
	if err != nil || c.Dir != filepath.Join(open, "hostDriver") {
		t.Errorf("%+v, %v", c, err)
	}
	if left, _ := os.ReadDir(shut); len(left) > 0 {
		t.Errorf("left in a closed directory: %v", left)
	}
	if c, err := OpenCache(filepath.Join(shut, "named")); err != nil || c.Dir != filepath.Join(shut, "named") {
		t.Errorf("a directory that is named is used: %+v, %v", c, err)
	}
}

// What is prepared is taken again while nothing changed, and made again where something did.
func TestPreparedOnce(t *testing.T) {
	h, m := withDriver(t)
	c, _ := cacheIn(t)
	var made int
	c.Log = func(format string, args ...any) {
		if strings.HasPrefix(format, "made ") {
			made++
		}
	}
	lib64 := filepath.Join(h.Root.Dir, "usr/lib64")
	prepare := func() string {
		t.Helper()
		ready, err := c.Prepare(h, m, nil, compat.Auto)
		if err != nil {
			t.Fatal(err)
		}
		return ready.Offers[0].Path
	}
	first := prepare()
	copied := filepath.Join(first, driver.LibCUDA)
	writable := func() error { // root needs no leave
		if os.Geteuid() == 0 {
			return nil
		}
		return os.Chmod(copied, 0o755)
	}
	for what, c := range map[string]struct {
		change func() error
		made   int
		same   bool
	}{
		"nothing":              {func() error { return nil }, 0, true},
		"a copy is written to": {func() error { return errors.Join(writable(), os.Truncate(copied, 100)) }, 1, true},
		"other bytes, its size and time as before": {func() error {
			st, err := os.Stat(copied)
			if err != nil {
				return err
			}
			b, err := os.ReadFile(copied)
			if err != nil {
				return err
			}
			b[len(b)-1] ^= 1
			return errors.Join(writable(), os.WriteFile(copied, b, 0o755), os.Chtimes(copied, st.ModTime(), st.ModTime()))
		}, 1, true},
		"a copy is exchanged":  {func() error { return os.Rename(filepath.Join(first, "libnvidia-ptxjitcompiler.so.1"), copied) }, 1, true},
		"a link leads away":    {func() error { return hosttest.Relink(filepath.Join(first, "libcuda.so"), "/etc/passwd") }, 1, true},
		"one leads away below": {func() error { return hosttest.Relink(filepath.Join(first, "gbm/nvidia-drm_gbm.so"), "/etc/passwd") }, 1, true},
		"a name is added":      {func() error { return os.WriteFile(filepath.Join(first, "libc.so.6"), nil, 0o755) }, 1, true},
		"a file is gone":       {func() error { return os.Remove(copied) }, 1, true},
		"its time":             {func() error { return os.Chtimes(copied, time.Now(), time.Now()) }, 1, true},
		"the whole directory":  {func() error { return os.RemoveAll(first) }, 1, true},
	} {
		made = 0
		time.Sleep(20 * time.Millisecond) // the kernel's clock for files is not exact
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		if got := prepare(); made != c.made || (got == first) != c.same {
			t.Errorf("%s: made %d times, in %s", what, made, got)
		}
	}
	for _, upgraded := range []string{"libcuda.so.535.1.2", "libnvidia-allocator.so.535.1.2"} { // both are copied
		before := prepare()
		b, err := os.ReadFile(filepath.Join(lib64, upgraded))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
		if err := os.WriteFile(filepath.Join(lib64, upgraded), append(b, "another build"...), 0o755); err != nil {
			t.Fatal(err)
		}
		if made = 0; prepare() == before || made != 1 {
			t.Errorf("another %s: made %d times", upgraded, made)
		}
	}
	entries, err := os.ReadDir(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") }) {
		t.Errorf("left over: %v", entries)
	}
}

// A cache whose contents no longer match its state, or that others can write, is not used.
func TestCacheRefusesWhatOthersCanWrite(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // root takes none that others cannot enter
		t.Fatal(err)
	}
	if _, err := OpenCache(filepath.Join(dir, "new", "deep")); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenCache(dir); err == nil {
		t.Error("a directory for all was taken")
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	// One's own link serves; what counts from then on is where it leads.
	if c, err := OpenCache(link); err != nil || c.Dir != dir {
		t.Errorf("%+v, %v", c, err)
	}
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	t.Setenv("XDG_RUNTIME_DIR", dir)
	if c, err := OpenCache(""); err != nil || c.Dir != filepath.Join(dir, "hostDriver") {
		t.Errorf("%+v, %v", c, err)
	}
	t.Setenv("XDG_RUNTIME_DIR", "")
	if os.Geteuid() != 0 {
		if _, err := OpenCache(""); err == nil || !strings.Contains(err.Error(), "--cache") {
			t.Error(err)
		}
	}
}

// Of a cluster's directories the group is named that can write one, and without any other, $TMPDIR gets one of our own.
func TestCacheOfACluster(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"XDG_CACHE_HOME", "HOME", "XDG_RUNTIME_DIR"} {
		t.Setenv(name, "")
	}
	t.Setenv("TMPDIR", dir)
	if err := errors.Join(os.Chmod(dir, 0o777|os.ModeSticky), os.Chmod(filepath.Dir(dir), 0o755)); err != nil { // as /tmp
		t.Fatal(err)
	}
	as := func(user int) (c *Cache, err error) {
		done := make(chan bool)
		go func() {
			runtime.LockOSThread() // which ends with its user
			if os.Geteuid() == 0 {
				unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(user), ^uintptr(0))
			}
			c, err = OpenCache("")
			close(done)
		}()
		<-done
		return c, err
	}
	const user = 65534
	c, err := as(user)
	if err != nil || filepath.Dir(c.Dir) != dir || !strings.HasPrefix(filepath.Base(c.Dir), "hostDriver-") {
		t.Fatalf("%+v, %v", c, err)
	}
	if info, err := os.Lstat(c.Dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if os.Geteuid() != 0 {
		return // and nothing here can be another's
	}
	if err := os.Chown(c.Dir, 1234, 1234); err != nil {
		t.Fatal(err)
	}
	if c, err := as(user); err == nil || !strings.Contains(err.Error(), "belongs to user 1234") {
		t.Errorf("%+v, %v", c, err)
	}
	project := filepath.Join(dir, "project")
	if err := errors.Join(os.Mkdir(project, 0o755), os.Chown(project, 0, 1234), os.Chmod(project, 0o775)); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenCache(filepath.Join(project, "cache")); err == nil || !strings.Contains(err.Error(), "group 1234 can write "+project+" (chmod g-w)") {
		t.Error(err)
	}
}

// Directories of older drivers live for a month after their last use, and until the machine is started again; what a
// killed process left, for an hour.
func TestUnusedDirectoriesAreRemoved(t *testing.T) {
	c := &Cache{Dir: t.TempDir()}
	defer func(f func() time.Time) { booted = f }(booted)
	booted = func() time.Time { return time.Now().Add(-35 * 24 * time.Hour) }
	name := strings.Repeat("0123456789abcdef", 2)
	ages := map[string]time.Duration{
		name: 40 * 24 * time.Hour, "1" + name[1:]: 40 * 24 * time.Hour, "2" + name[1:]: 20 * 24 * time.Hour,
		"3" + name[1:]: 34 * 24 * time.Hour, "4" + name[1:]: 35*24*time.Hour + 12*time.Hour, // may be in use: the machine has run since
		".new-1": 2 * time.Hour, regular.Temporary + "1": 2 * time.Hour, regular.Temporary + "2": time.Minute, ".new-2": time.Minute, "stage": 40 * 24 * time.Hour, "mine": 40 * 24 * time.Hour,
	}
	for name, age := range ages {
		at, then := filepath.Join(c.Dir, name), time.Now().Add(-age)
		if err := os.Mkdir(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(at, then, then); err != nil {
			t.Fatal(err)
		}
	}
	used := "5" + name[1:] // not changed for long, and started with today
	ages[used] = 0
	long := time.Now().Add(-40 * 24 * time.Hour)
	if err := errors.Join(os.Mkdir(filepath.Join(c.Dir, used), 0o755), os.Chtimes(filepath.Join(c.Dir, used), long, long),
		os.WriteFile(filepath.Join(c.Dir, used+manifest), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	c.removeUnused([]Dir{{Path: filepath.Join(c.Dir, name)}})
	for old := range ages {
		_, err := os.Lstat(filepath.Join(c.Dir, old))
		if gone := err != nil; gone != (old == ".new-1" || old == regular.Temporary+"1" || old == "1"+name[1:]) {
			t.Errorf("%s: gone: %v", old, gone)
		}
	}
}
