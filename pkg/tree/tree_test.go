package tree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

const elfData = "\x7fELF and more"

func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}

// walk returns one line for each file visited.
func walk(t *testing.T, o Options, paths ...string) []string {
	t.Helper()
	var got []string
	err := Walk(context.Background(), paths, o, func(f *File) (string, bool) {
		switch {
		case f.Err != nil:
			return f.Path + " ERROR " + f.Err.Error(), true
		case f.SameAs != "":
			return f.Path + " is " + f.SameAs, true
		case f.ELF():
			return f.Path + " ELF", true
		}
		return f.Path, true
	}, func(s string) { got = append(got, s) })
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestOrderIsThatOfNamesWhateverTheJobs(t *testing.T) {
	t.Chdir(t.TempDir())
	want := []string{}
	for i := range 1000 { // more than one task
		name := fmt.Sprintf("d/f%04d", i)
		data := "text"
		if i%3 == 0 {
			data, want = elfData, append(want, name+" ELF")
		} else {
			want = append(want, name)
		}
		write(t, name, data)
		if i%100 == 50 { // a directory between two files
			write(t, fmt.Sprintf("d/f%04d.d/x/y", i), "")
			write(t, fmt.Sprintf("d/f%04d.d/z", i), elfData)
			want = append(want, fmt.Sprintf("d/f%04d.d/x/y", i), fmt.Sprintf("d/f%04d.d/z ELF", i))
		}
	}
	for _, jobs := range []int{0, 1, 2, 7} {
		if diff := cmp.Diff(want, walk(t, Options{Jobs: jobs}, "d")); diff != "" {
			t.Errorf("%d jobs: %s", jobs, diff)
		}
	}
	if got := walk(t, Options{}, "d/"); got[0] != "d/f0000 ELF" {
		t.Errorf("a slash at the end is doubled: %q", got[0])
	}
	if got := walk(t, Options{}, "d/f0002", "d/f0001"); !slices.Equal(got, []string{"d/f0002", "d/f0001"}) {
		t.Errorf("arguments are re-ordered: %q", got)
	}
}

func TestAnyNameIsAName(t *testing.T) {
	t.Chdir(t.TempDir())
	names := []string{"new\nline", "\xff\xfe invalid UTF-8", " space", "-dash", strings.Repeat("n", 255)}
	for _, n := range names {
		write(t, "d/"+n, elfData)
	}
	slices.Sort(names)
	for i := range names {
		names[i] = "d/" + names[i] + " ELF"
	}
	if diff := cmp.Diff(names, walk(t, Options{}, "d")); diff != "" {
		t.Error(diff)
	}
}

func TestSymbolicLinksInsideAreNotFollowed(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "outside/lib.so", elfData)
	write(t, "d/a", elfData)
	os.Symlink("a", "d/link")
	os.Symlink("../outside", "d/dir")
	os.Symlink("d", "d/dangling")
	if got := walk(t, Options{FollowArguments: true}, "d"); !slices.Equal(got, []string{"d/a ELF"}) {
		t.Errorf("%q", got)
	}
}

func TestArgumentThatIsASymbolicLink(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "d/a", elfData)
	os.Symlink("d/a", "file")
	os.Symlink("d", "dir")
	want := []string{"file ERROR " + ErrSymlink.Error(), "dir ERROR " + ErrSymlink.Error()}
	if diff := cmp.Diff(want, walk(t, Options{}, "file", "dir")); diff != "" {
		t.Errorf("editors refuse: %s", diff)
	}
	// The kernel follows a link that a slash comes after, whatever the flags.
	want = []string{"dir/ ERROR " + ErrSymlink.Error(), "dir// ERROR " + ErrSymlink.Error(), "file/ ERROR " + ErrSymlink.Error(), "d/a/ ERROR not a directory"}
	for i, path := range []string{"dir/", "dir//", "file/", "d/a/"} {
		if diff := cmp.Diff(want[i:i+1], walk(t, Options{}, path)); diff != "" {
			t.Errorf("editors refuse: %s", diff)
		}
	}
	if d, err := newRoot("dir/", false, false, nil).open(); err == nil { // exchanged for a link after it was looked at
		d.release()
		t.Error("a link is opened that a slash comes after")
	}
	for _, path := range []string{"d/", "d//", "dir/."} {
		if got := walk(t, Options{}, path); len(got) != 1 || !strings.HasSuffix(got[0], "a ELF") {
			t.Errorf("%s: %q", path, got)
		}
	}
	if got := walk(t, Options{FollowArguments: true}, "dir/"); !slices.Equal(got, []string{"dir/a ELF"}) {
		t.Errorf("checks follow: %q", got)
	}
	if got := walk(t, Options{FollowArguments: true}, "file"); !slices.Equal(got, []string{"file ELF"}) {
		t.Errorf("checks follow: %q", got)
	}
	if got := walk(t, Options{FollowArguments: true}, "dir"); !slices.Equal(got, []string{"dir/a ELF"}) {
		t.Errorf("checks follow: %q", got)
	}
}

func TestHardLinksAreVisitedOnceByTheirFirstPath(t *testing.T) {
	t.Chdir(t.TempDir())
	for i := range 200 {
		write(t, fmt.Sprintf("d/m%03d", i), elfData)
	}
	os.Link("d/m100", "d/zz")
	os.Link("d/m100", "d/aa")
	os.Link("d/m050", "e")
	for range 5 {
		got := walk(t, Options{Jobs: 4}, "d", "e")
		if got[0] != "d/aa ELF" || got[101] != "d/m100 is d/aa" || got[201] != "d/zz is d/aa" || got[202] != "e is d/m050" || len(got) != 203 {
			t.Fatalf("%q %q %q %q of %d", got[0], got[101], got[201], got[202], len(got))
		}
	}
}

func TestArgumentsThatOverlapAreVisitedOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "d/s/a", elfData)
	write(t, "dd/b", elfData)
	os.Symlink("d", "alias")
	if got := walk(t, Options{Jobs: 4}, "d/s/a", "d/s", "dd/b", "./d/../d", "dd/b", "d"); !slices.Equal(got, []string{"dd/b ELF", "./d/../d/s/a ELF"}) {
		t.Errorf("%q", got)
	}
	if got := walk(t, Options{Jobs: 4}, "d", "alias/s", "alias/s/a"); !slices.Equal(got, []string{"d/s/a ELF"}) {
		t.Errorf("%q", got)
	}
}

func TestArgumentThroughASymbolicLinkInAnotherArgumentIsVisited(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "d/a", elfData)
	write(t, "outside/s/b", elfData)
	os.Symlink("../outside/s", "d/link")
	os.Symlink("../outside/s/b", "d/file")
	if got := walk(t, Options{}, "d", "d/link/b"); !slices.Equal(got, []string{"d/a ELF", "d/link/b ELF"}) {
		t.Errorf("a file: %q", got)
	}
	if got := walk(t, Options{}, "d", "d/link/."); !slices.Equal(got, []string{"d/a ELF", "d/link/./b ELF"}) {
		t.Errorf("a directory: %q", got)
	}
	if got := walk(t, Options{FollowArguments: true}, "d", "d/file"); !slices.Equal(got, []string{"d/a ELF", "d/file ELF"}) {
		t.Errorf("the link itself: %q", got)
	}
	if got := walk(t, Options{}, "outside", "d/link/../s/b", "d/link/.."); !slices.Equal(got, []string{"outside/s/b ELF"}) {
		t.Errorf(`".." after a link: %q`, got)
	}
}

func TestFirstArgumentIsTheOneInFull(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "b", elfData)
	os.Link("b", "a")
	os.Symlink("b", "link")
	for range 100 { // the arguments are visited at the same time
		if got := walk(t, Options{Jobs: 4, FollowArguments: true}, "link", "a", "b"); !slices.Equal(got, []string{"link ELF", "a is link"}) {
			t.Fatalf("%q", got)
		}
	}
}

func TestOtherFilesAreNotOpened(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "d/a", "text")
	if err := unix.Mkfifo("d/fifo", 0o644); err != nil {
		t.Fatal(err)
	}
	done := make(chan []string)
	go func() { done <- walk(t, Options{}, "d", "d/nothing", "/dev/null") }()
	select {
	case got := <-done:
		want := []string{"d/nothing ERROR no such file or directory", "/dev/null ERROR " + errNotFile.Error(), "d/a"}
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	case <-time.After(time.Minute):
		t.Fatal("waits for the writer of a FIFO")
	}
}

// A name that was a regular file a moment ago can be a FIFO by the time that it is opened, to read or to write.
func TestFileThatBecomesAFIFOIsNotWaitedFor(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "d/a", "\x7fELF and more")
	swap := func() {
		if err := errors.Join(os.Remove("d/a"), unix.Mkfifo("d/a", 0o644)); err != nil {
			t.Error(err)
		}
	}
	for _, when := range []string{"before it is read", "before it is written to"} {
		t.Run(when, func(t *testing.T) {
			done := make(chan error)
			go func() {
				fd, err := unix.Open("d", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
				if err != nil {
					done <- err
					return
				}
				defer unix.Close(fd)
				if when == "before it is read" {
					swap()
				}
				f := open(&dir{fd: fd}, "a", "d/a", false, &noatime{}, make([]byte, 64))
				defer f.close()
				if when == "before it is read" {
					done <- nil
					return
				}
				swap()
				got, err := f.openForWriting()
				if err == nil {
					unix.Close(got)
					err = errors.New("a FIFO was opened for writing")
				} else {
					err = nil
				}
				done <- err
			}()
			select {
			case err := <-done:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(time.Minute):
				t.Fatal("waits for the other end of a FIFO")
			}
			if err := os.Remove("d/a"); err != nil {
				t.Fatal(err)
			}
			write(t, "d/a", "\x7fELF and more")
		})
	}
}

func TestNoMoreFilesAtATimeThanJobs(t *testing.T) {
	t.Chdir(t.TempDir())
	for i := range 600 {
		write(t, fmt.Sprintf("d/%d/%d", i%7, i), "")
	}
	var now, most atomic.Int32
	var once sync.Once
	second := make(chan bool)
	Walk(context.Background(), []string{"d"}, Options{Jobs: 3}, func(*File) (int, bool) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		switch n { // the first waits for another, which comes where there is more than one at a time
		case 1:
			select {
			case <-second:
			case <-time.After(time.Minute):
			}
		case 2:
			once.Do(func() { close(second) })
		}
		time.Sleep(100 * time.Microsecond)
		now.Add(-1)
		return 0, false
	}, func(int) {})
	if most.Load() > 3 || most.Load() < 2 {
		t.Errorf("%d at a time", most.Load())
	}
}

func TestCancelledWalkFinishesItsFilesAndSaysHowFarItCame(t *testing.T) {
	t.Chdir(t.TempDir())
	for i := range 1000 {
		write(t, fmt.Sprintf("d/%04d", i), "")
	}
	ctx, cancel := context.WithCancel(context.Background())
	var begun, late, finished atomic.Int32
	emitted := 0
	err := Walk(ctx, []string{"d"}, Options{Jobs: 2}, func(*File) (int, bool) {
		if ctx.Err() != nil {
			late.Add(1)
		}
		if begun.Add(1) == 150 {
			cancel()
		}
		time.Sleep(10 * time.Microsecond)
		finished.Add(1)
		return 0, true
	}, func(int) { emitted++ })
	var stopped *Stopped
	if !errors.As(err, &stopped) || !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	if n := int(finished.Load()); stopped.Visited != n || n != int(begun.Load()) || n < 150 || late.Load() > 10 || emitted != n {
		t.Errorf("says %d, finished %d of %d begun, %d of them late, emitted %d", stopped.Visited, n, begun.Load(), late.Load(), emitted)
	}
}

// edit writes data to the ELF files below path.
func edit(path, data string) error {
	err := errors.New("not visited")
	Walk(context.Background(), []string{path}, Options{Jobs: 1}, func(f *File) (int, bool) {
		if err = f.Err; err == nil {
			err = f.Write(func(w Writer) error {
				_, err := w.WriteAt([]byte(data), 4)
				return err
			})
		}
		return 0, false
	}, func(int) {})
	return err
}

func stat(t *testing.T, path string) (st unix.Stat_t) {
	t.Helper()
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st
}

func TestWriteKeepsWhatIsNotWritten(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "a", elfData)
	os.Link("a", "other")
	if err := os.Chmod("a", 0o755|os.ModeSetuid|os.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	past := time.Unix(1_000_000_000, 123_456_789)
	if err := os.Chtimes("a", past, past); err != nil {
		t.Fatal(err)
	}
	xattr := unix.Setxattr("a", "user.note", []byte("kept"), 0) == nil
	caps := []byte{1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0} // cap_net_bind_service=p
	hasCaps := unix.Setxattr("a", capabilityAttr, caps, 0) == nil
	before := stat(t, "a")
	if err := edit("a", "XYZ"); err != nil {
		t.Fatal(err)
	}
	after := stat(t, "other")
	if data, _ := os.ReadFile("other"); string(data) != "\x7fELFXYZd more" {
		t.Errorf("content %q", data)
	}
	if after.Ino != before.Ino || after.Mode != before.Mode || after.Uid != before.Uid || after.Nlink != 2 {
		t.Errorf("inode %d mode %o, before %d %o", after.Ino, after.Mode, before.Ino, before.Mode)
	}
	if after.Atim != before.Atim {
		t.Errorf("access time %v, before %v", after.Atim, before.Atim)
	}
	if after.Mtim == before.Mtim {
		t.Error("the modification time did not change")
	}
	b := make([]byte, 64)
	if n, err := unix.Getxattr("a", "user.note", b); xattr && (err != nil || string(b[:n]) != "kept") {
		t.Errorf("user.note: %q %v", b[:max(n, 0)], err)
	}
	if !hasCaps {
		t.Log("file capabilities cannot be set here: not tested")
	} else if n, err := unix.Getxattr("a", capabilityAttr, b); err != nil || string(b[:n]) != string(caps) {
		t.Errorf("capabilities: %x %v", b[:max(n, 0)], err)
	}
}

func TestReadingLeavesTheAccessTime(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "a", elfData)
	past := time.Unix(1_000_000_000, 0)
	os.Chtimes("a", past, past)
	before := stat(t, "a")
	walk(t, Options{}, ".")
	if after := stat(t, "a"); after != before {
		t.Errorf("%+v, before %+v", after, before)
	}
}

func TestFileThatIsExecutedIsRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	data, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Skip(err)
	}
	write(t, "sleep", string(data))
	os.Chmod("sleep", 0o755)
	cmd := exec.Command("./sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if err := edit("sleep", "XYZ"); !errors.Is(err, errBusy) {
		t.Errorf("%v", err)
	}
}

func TestFileThatChangesUnderfootIsNotTouched(t *testing.T) {
	// Each has one difference only: the modification time is set back.
	past := time.Unix(1_000_000_000, 0)
	set := func(path, data string) {
		os.WriteFile(path, []byte(data), 0o644)
		os.Chtimes(path, past, past)
	}
	more := ""
	for what, change := range map[string]func(){
		"written to": func() { os.Chtimes("a", past, time.Now()) },
		"longer":     func() { more += "x"; set("a", elfData+more) },
		"replaced":   func() { set("b", elfData); os.Rename("b", "a") },
		"a link now": func() { set("b", elfData); os.Remove("a"); os.Symlink("b", "a") },
	} {
		t.Run(what, func(t *testing.T) {
			t.Chdir(t.TempDir())
			set("a", elfData)
			var err error
			Walk(context.Background(), []string{"a"}, Options{}, func(f *File) (int, bool) {
				change()
				err = f.Write(func(w Writer) error { t.Error("written"); return nil })
				return 0, false
			}, func(int) {})
			if !errors.Is(err, errChanged) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestFailedWriteIsReported(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "a", elfData)
	os.Chmod("a", 0o755|os.ModeSetuid)
	broken := errors.New("broken")
	var err error
	Walk(context.Background(), []string{"a"}, Options{}, func(f *File) (int, bool) {
		err = f.Write(func(w Writer) error {
			w.WriteAt([]byte("x"), 100)
			w.Truncate(f.Size())
			return broken
		})
		return 0, false
	}, func(int) {})
	if !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	if st := stat(t, "a"); st.Mode&0o7777 != 0o4755 || st.Size != int64(len(elfData)) {
		t.Errorf("mode %o, %d bytes", st.Mode, st.Size)
	}
}

// As root nothing is read-only, so these run as another user in a process of their own.
func TestAsAnotherUser(t *testing.T) {
	const env = "TREE_TEST_AS_ANOTHER_USER"
	if dir := os.Getenv(env); dir != "" {
		t.Chdir(dir)
		asAnotherUser(t)
		return
	}
	if os.Getuid() != 0 {
		t.Chdir(t.TempDir())
		asAnotherUser(t)
		return
	}
	dir, err := os.MkdirTemp("", "tree")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	write(t, filepath.Join(dir, "roots", "file"), elfData)
	write(t, filepath.Join(dir, "roots", "secret"), elfData)
	for name, mode := range map[string]os.FileMode{"": 0o755, "file": 0o644, "secret": 0o600} { // whatever the umask is
		os.Chmod(filepath.Join(dir, "roots", name), mode)
	}
	const nobody = 65534
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Skip(err)
	}
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	self := filepath.Join(dir, "test")
	if err := errors.Join(os.WriteFile(self, data, 0o755), os.Chmod(self, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestAsAnotherUser$", "-test.v")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env+"="+dir, "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestAsAnotherUser") {
		t.Errorf("%v\n%s", err, out)
	}
}

func asAnotherUser(t *testing.T) {
	write(t, "mine", elfData)
	if err := os.Chmod("mine", 0o555); err != nil {
		t.Fatal(err)
	}
	if err := edit("mine", "XYZ"); err != nil {
		t.Errorf("a read-only file of one's own: %v", err)
	}
	if st := stat(t, "mine"); st.Mode&0o7777 != 0o555 {
		t.Errorf("mode %o", st.Mode)
	}
	if data, _ := os.ReadFile("mine"); string(data) != "\x7fELFXYZd more" {
		t.Errorf("content %q", data)
	}
	write(t, "setuid", elfData)
	if err := unix.Chmod("setuid", 0o6555); err != nil {
		t.Fatal(err)
	}
	if err := edit("setuid", "XYZ"); err != nil {
		t.Error(err)
	}
	if st := stat(t, "setuid"); st.Mode&0o7777 != 0o6555 {
		t.Errorf("the kernel's clearing of set-user-ID was not undone: mode %o", st.Mode)
	}
	os.MkdirAll("closed", 0o755)
	write(t, "closed/a", elfData)
	os.Chmod("closed", 0)
	defer os.Chmod("closed", 0o755)
	if got := walk(t, Options{}, "closed"); !slices.Equal(got, []string{"closed ERROR permission denied"}) {
		t.Errorf("a directory that may not be read: %q", got)
	}
	if _, err := os.Stat("roots"); err != nil {
		return
	}
	if got := walk(t, Options{}, "roots"); !slices.Equal(got, []string{"roots/file ELF", "roots/secret ERROR permission denied"}) {
		t.Errorf("another's files: %q", got)
	}
	if err := edit("roots/file", "XYZ"); !errors.Is(err, unix.EACCES) {
		t.Errorf("another's file: %v", err)
	}
}

// A file that is open but has no name any more, as a process's program in a container has none outside.
func TestArgumentThatNoPathLeadsTo(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "a", elfData)
	f, err := os.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	os.Remove("a")
	link := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	if _, err := os.Stat(link); err != nil {
		t.Skip(err)
	}
	if got := walk(t, Options{FollowArguments: true}, link); !slices.Equal(got, []string{link + " ELF"}) {
		t.Errorf("%q", got)
	}
}

func TestLinksAreToldAndShallowStaysAbove(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "d/a.so.1", elfData)
	write(t, "d/sub/b.so", elfData)
	os.Symlink("a.so.1", "d/a.so")
	os.Symlink("nothing", "d/sub/dangling")
	var mu sync.Mutex
	var links []string
	link := func(dir, name string) {
		mu.Lock()
		links = append(links, dir+" "+name)
		mu.Unlock()
	}
	if diff := cmp.Diff([]string{"d/a.so.1 ELF", "d/sub/b.so ELF"}, walk(t, Options{Link: link}, "d")); diff != "" {
		t.Error(diff)
	}
	slices.Sort(links)
	if diff := cmp.Diff([]string{"d a.so", "d/sub dangling"}, links); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"d/a.so.1 ELF", "d/sub/b.so ELF"}, walk(t, Options{Shallow: true}, "d", "d/a.so.1", "d/sub/b.so")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"d/a.so.1 ELF", "d/sub/b.so ELF"}, walk(t, Options{Shallow: true}, "d", "d/sub")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"d/a.so.1 ELF"}, walk(t, Options{Shallow: true}, "d")); diff != "" {
		t.Error(diff)
	}
}

func TestFilesAreVisitedInTheOrderGiven(t *testing.T) {
	t.Chdir(t.TempDir())
	var want []string
	for i := range 200 { // more than one task
		p := fmt.Sprintf("f%03d", 199-i)
		write(t, p, elfData)
		want = append(want, p)
	}
	targets := kept(t, ".")
	slices.Reverse(targets)
	for i := range want {
		want[i] = "./" + want[i]
	}
	os.Remove("f100")
	os.Symlink("f101", "f100")
	var got, bad []string
	err := Files(context.Background(), targets, Options{Jobs: 3}, func(f *File) (string, bool) {
		if f.Err != nil {
			return "!" + f.Path, true
		}
		return f.Path, true
	}, func(p string) {
		if p[0] == '!' {
			bad, p = append(bad, p), p[1:]
		}
		got = append(got, p)
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !slices.Equal(bad, []string{"!./f100"}) {
		t.Errorf("the link is visited as %q", bad)
	}
}

// A name that was a file when the directory was read may be a FIFO when it is opened.
func TestOpenDoesNotWaitForAWriter(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := unix.Mkfifo("fifo", 0o644); err != nil {
		t.Skip(err)
	}
	done := make(chan *File)
	go func() { done <- open(here, "fifo", "fifo", false, &noatime{}, make([]byte, 64)) }()
	select {
	case f := <-done:
		defer f.close()
		if f.ELF() {
			t.Errorf("a FIFO passes for an ELF file: %v", f.Err)
		}
	case <-time.After(time.Minute):
		w, _ := os.OpenFile("fifo", os.O_WRONLY|unix.O_NONBLOCK, 0) // lets it end
		w.Close()
		t.Error("waits for the writer of a FIFO")
	}
}
