package plainfile_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cuda-runpath/pkg/plainfile"
	"cuda-runpath/pkg/regular"
)

func mode(t *testing.T, at string) fs.FileMode {
	t.Helper()
	info, err := os.Lstat(at)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestModesDoNotDependOnTheUmask(t *testing.T) {
	dir := t.TempDir()
	defer unix.Umask(unix.Umask(0o777))
	top, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	lock, err := plainfile.OpenLock(top, "lock")
	if err == nil {
		lock.Close()
	}
	err = errors.Join(err, plainfile.Make(filepath.Join(dir, "a"), 0o700), plainfile.MakeAll(filepath.Join(dir, "b/c"), 0o755), plainfile.MakeIn(top, "d"), plainfile.WriteFile(top, "f", 0o644, nil))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{"a": 0o700, "b": 0o755, "b/c": 0o755, "d": 0o755, "f": 0o644, "lock": 0o600} {
		if got := mode(t, filepath.Join(dir, name)); got != want {
			t.Errorf("%s: %o, want %o", name, got, want)
		}
	}
	if got := unix.Umask(0o777); got != 0o777 {
		t.Errorf("the umask is %o afterwards", got)
	}
}

// A process has one umask: two that set it at once would leave none.
func TestTheUmaskComesBack(t *testing.T) {
	dir := t.TempDir()
	defer unix.Umask(unix.Umask(0o027))
	var made sync.WaitGroup
	for i := range 8 {
		made.Go(func() {
			for j := range 200 {
				if err := plainfile.Make(filepath.Join(dir, fmt.Sprint(i, "-", j)), 0o755); err != nil {
					t.Error(err)
				}
			}
		})
	}
	made.Wait()
	if got := unix.Umask(0o027); got != 0o027 {
		t.Errorf("the umask is %o afterwards", got)
	}
}

func TestBelowFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "a/b"), 0o755), os.Symlink("a", filepath.Join(dir, "link")), os.WriteFile(filepath.Join(dir, "file"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	top, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	errLink := errors.New("a link")
	for inside, want := range map[string]error{"/": nil, "/a/b": nil, "/a": nil, "/link": errLink, "/link/b": errLink, "/file": unix.ENOTDIR, "/none": fs.ErrNotExist, "/a/none": fs.ErrNotExist} {
		at, err := regular.RootBelow(top, inside)
		if want == errLink && err != nil {
			continue
		}
		if !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("%s: %v", inside, err)
		}
		if err == nil {
			have, _ := at.Stat(".")
			real, _ := os.Stat(filepath.Join(dir, inside))
			if !os.SameFile(have, real) {
				t.Errorf("%s is another directory", inside)
			}
			at.Close()
		}
	}
}

func TestExchange(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "a"), []byte("a"), 0o644), os.Mkdir(filepath.Join(dir, "b"), 0o755)); err != nil {
		t.Fatal(err)
	}
	top, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	if err := errors.Join(plainfile.Exchange(top, "a", "b"), plainfile.Sync(top)); err != nil {
		t.Fatal(err)
	}
	if b, err := top.ReadFile("b"); err != nil || string(b) != "a" {
		t.Errorf("%q, %v", b, err)
	}
	if plainfile.Exchange(top, "a", "none") == nil {
		t.Error("exchanged with nothing")
	}
	if a, b := plainfile.Random(), plainfile.Random(); a == b || len(a) != 16 {
		t.Error(a, b)
	}
}

func TestLockWaitsAndGivesUp(t *testing.T) {
	defer func(d time.Duration) { plainfile.LockWait = d }(plainfile.LockWait)
	plainfile.LockWait = 300 * time.Millisecond
	at := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.Create(at)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	first, second := open(), open()
	defer second.Close()
	if !plainfile.Lock(first, nil) {
		t.Fatal("not locked")
	}
	waited := 0
	if plainfile.Lock(second, func() { waited++ }) || waited != 1 {
		t.Errorf("locked twice, or %d words", waited)
	}
	plainfile.LockWait = time.Minute
	time.AfterFunc(50*time.Millisecond, func() { first.Close() })
	if !plainfile.Lock(second, func() { t.Error("a word, at once") }) {
		t.Error("not locked")
	}
}

// A link that takes the place of a directory between two looks is not followed, also where it stays in the same one.
func TestBelowWhileNamesAreExchanged(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "a"), 0o755), os.Mkdir(filepath.Join(dir, "b"), 0o755), os.Symlink("b", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	in, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	a, err := in.Stat("a")
	if err != nil {
		t.Fatal(err)
	}
	end, ended := make(chan bool), make(chan bool)
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			default:
				_ = plainfile.Exchange(in, "a", "link")
			}
		}
	}()
	entered, exchanged := 0, 0
	// Half a second, but as long as it takes on a machine that has other things to do.
	for began := time.Now(); time.Since(began) < time.Second/2 || (entered == 0 || exchanged == 0) && time.Since(began) < time.Minute; {
		at, err := regular.RootBelow(in, "a")
		if err != nil {
			exchanged++
			continue
		}
		if info, err := at.Stat("."); err != nil || !os.SameFile(a, info) {
			t.Error("a link was followed")
		}
		at.Close()
		entered++
	}
	close(end)
	<-ended
	if entered == 0 || exchanged == 0 {
		t.Errorf("the test tests nothing: entered %d times, refused %d", entered, exchanged)
	}
}

// In a chroot or early at boot there may be no /proc.
func TestBelowWithoutProc(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and the thread ends with its root
		err := errors.Join(unix.Unshare(unix.CLONE_FS), unix.Chroot(dir))
		if err == nil {
			err = func() error {
				top, err := os.OpenRoot("/")
				if err != nil {
					return err
				}
				defer top.Close()
				at, err := regular.RootBelow(top, "/a/b")
				if err != nil {
					return err
				}
				defer at.Close()
				return errors.Join(plainfile.MakeIn(at, "c"), os.Remove("/a/b/c"))
			}()
		} else {
			err = fmt.Errorf("%w: %w", errNoChroot, err)
		}
		done <- err
	}()
	if err := <-done; errors.Is(err, errNoChroot) {
		t.Skip(err)
	} else if err != nil {
		t.Error(err)
	}
}

var errNoChroot = errors.New("no chroot here")
