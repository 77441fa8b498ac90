package host

import (
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/driver"
	"cuda-runpath/pkg/loader/tinyelf"
)

// withDriver returns a host with a driver of two libraries, one of which loads the other.
func withDriver(t *testing.T) *Host {
	t.Helper()
	h := host(t, map[string]string{
		"usr/lib64/libcuda.so.535.1.2":                  string(tinyelf.Object{}.With(elf.DT_SONAME, driver.LibCUDA).Needs("libnvidia-ptxjitcompiler.so.1").Bytes()),
		"usr/lib64/libnvidia-ptxjitcompiler.so.535.1.2": string(tinyelf.Object{}.With(elf.DT_SONAME, "libnvidia-ptxjitcompiler.so.1").Bytes()),
	})
	for _, name := range []string{"libcuda.so", "libnvidia-ptxjitcompiler.so"} {
		if err := os.Symlink(name+".535.1.2", filepath.Join(h.Root.Dir, "usr/lib64", name+".1")); err != nil {
			t.Fatal(err)
		}
	}
	return h
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

func x8664(t *testing.T) Machine {
	t.Helper()
	m, err := MachineNamed("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Another process that holds the lock and does not go on (it is stopped) is waited for a while, and said.
func TestAStartDoesNotWaitForEver(t *testing.T) {
	defer func(d time.Duration) { lockWait = d }(lockWait)
	lockWait = 300 * time.Millisecond
	h, m := withDriver(t), x8664(t)
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
	ready, err := c.Prepare(h, m, nil, CompatAuto)
	if err != nil || len(ready.Offers) != 1 {
		t.Fatalf("%+v, %v", ready, err)
	}
	if len(*warned) != 2 || !strings.Contains((*warned)[0], "waiting for another start") || !strings.Contains((*warned)[1], "going on without") {
		t.Errorf("%q", *warned)
	}
	// The prefix has a lock too: an installation is not done beside another.
	if _, err := h.UninstallAll("/usr/none", false); err != nil {
		t.Error(err)
	}
	offer := &Offer{Entries: []Entry{{Name: driver.LibCUDA, Target: "/x"}}}
	d := &Driver{Machine: m.Name, machine: m}
	if _, err := h.Install(d, offer, "/usr/driver", false); err != nil {
		t.Fatal(err)
	}
	offer.Entries[0].Target = "/y"
	lock, err := os.Create(filepath.Join(h.Root.Dir, "usr/driver", lockName))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Install(d, offer, "/usr/driver", false); err == nil || !strings.Contains(err.Error(), "/usr/driver/.lock for 300ms; is it stopped?") {
		t.Error(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}

// Whatever the umask, root's cache is for everybody, and its lock can be opened the next time.
func TestCacheUnderUmasks(t *testing.T) {
	h, m := withDriver(t), x8664(t)
	for _, umask := range []int{0o077, 0o777, 0} {
		c, _ := cacheIn(t)
		old := unix.Umask(umask)
		ready, err := c.Prepare(h, m, nil, CompatAuto)
		if err == nil {
			_, err = c.Stage()
		}
		unix.Umask(old)
		if err != nil {
			t.Fatalf("umask %o: %v", umask, err)
		}
		for at, mode := range all(t, c.Dir) {
			name, _ := filepath.Rel(c.Dir, at)
			want := fs.FileMode(0o755)
			switch {
			case name == ".":
				if want = 0o700; os.Geteuid() == 0 {
					want = 0o755
				}
			case name == stageName:
				want = 0o700
			case filepath.Dir(name) == ".":
				if !mode.IsDir() {
					want = 0o600
				}
			default:
				want = 0o555
			}
			if mode&fs.ModeSymlink == 0 && mode.Perm() != want {
				t.Errorf("umask %o: %s has mode %o, not %o", umask, name, mode.Perm(), want)
			}
		}
		if names := all(t, ready.Offers[0].Dir); len(names) < 5 {
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
	mkdirs(t, open, shut)
	if err := os.Chmod(filepath.Dir(top), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(shut, 0o700); err != nil {
		t.Fatal(err)
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
	h, m := withDriver(t), x8664(t)
	c, _ := cacheIn(t)
	var made int
	c.Log = func(format string, args ...any) {
		if strings.HasPrefix(format, "made ") {
			made++
		}
	}
	cuda := filepath.Join(h.Root.Dir, "usr/lib64/libcuda.so.535.1.2")
	prepare := func() string {
		t.Helper()
		ready, err := c.Prepare(h, m, nil, CompatAuto)
		if err != nil {
			t.Fatal(err)
		}
		return ready.Offers[0].Dir
	}
	first := prepare()
	copied := filepath.Join(first, driver.LibCUDA)
	for what, c := range map[string]struct {
		change func() error
		made   int
		same   bool
	}{
		"nothing":              {func() error { return nil }, 0, true},
		"a copy is written to": {func() error { return os.Truncate(copied, 100) }, 1, true},
		"a copy is exchanged":  {func() error { return os.Rename(filepath.Join(first, "libnvidia-ptxjitcompiler.so.1"), copied) }, 1, true},
		"a link leads away":    {func() error { return relink(filepath.Join(first, "libcuda.so"), "/etc/passwd") }, 1, true},
		"a file is gone":       {func() error { return os.Remove(copied) }, 1, true},
		"its time":             {func() error { return os.Chtimes(copied, time.Now(), time.Now()) }, 1, true},
		"the whole directory":  {func() error { return os.RemoveAll(first) }, 1, true},
	} {
		made = 0
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		if got := prepare(); made != c.made || (got == first) != c.same {
			t.Errorf("%s: made %d times, in %s", what, made, got)
		}
	}
	b, err := os.ReadFile(cuda)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cuda, append(b, "another build"...), 0o755); err != nil {
		t.Fatal(err)
	}
	if made = 0; prepare() == first || made != 1 {
		t.Errorf("an upgraded driver: made %d times", made)
	}
	entries, err := os.ReadDir(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") }) {
		t.Errorf("left over: %v", entries)
	}
}
