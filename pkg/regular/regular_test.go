package regular

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func put(t *testing.T, name, data string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The temporary name may be another's by now.
func TestOnlyWhatIsLeftIsRemoved(t *testing.T) {
	dir := t.TempDir()
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	name := TempName(0, "report")
	temp := filepath.Join(dir, name)
	put(t, temp, "left by a killed process")
	left, err := unix.Open(temp, unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "live"), "of a process that lives")
	if err := os.Rename(filepath.Join(dir, "live"), temp); err != nil {
		t.Fatal(err)
	}
	if removed, err := remove(int(d.Fd()), name, left); removed || err != nil {
		t.Error(removed, err)
	}
	if b, err := os.ReadFile(temp); string(b) != "of a process that lives" {
		t.Errorf("%q, %v", b, err)
	}
	unix.Close(left)
}

func TestReadIsBounded(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "record")
	put(t, name, "12345")
	if b, err := Read(name, 5); err != nil || string(b) != "12345" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := Read(name, 4); err == nil || !strings.Contains(err.Error(), "larger than 4 bytes") {
		t.Errorf("5 bytes of at most 4: %v", err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{pipe, dir, "/dev/zero"} {
		if _, err := Read(name, 5); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOpenInFollowsNoLinkAndWaitsForNobody(t *testing.T) {
	dir := t.TempDir()
	for _, err := range []error{os.WriteFile(dir+"/file", []byte("text"), 0o644), os.Symlink("file", dir+"/link"), unix.Mkfifo(dir+"/fifo", 0o644), os.Mkdir(dir+"/dir", 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for name, want := range map[string]error{"file": nil, "link": ErrLink, "fifo": ErrNotRegular, "dir": ErrNotRegular, "gone": os.ErrNotExist} {
		f, info, err := OpenIn(d, name)
		if !errors.Is(err, want) || err == nil && info.Size() != 4 {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			f.Close()
		}
	}
}

// Opening what is no regular file may do something: to a FIFO's writer, a tape, a watchdog.
func TestWhatIsNoRegularFileIsNotOpened(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := errors.Join(unix.Mkfifo(fifo, 0o600), os.Symlink("fifo", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "file"), "")
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Skip(err)
	}
	defer unix.Close(watch)
	for _, name := range []string{fifo, filepath.Join(dir, "file")} {
		if _, err := unix.InotifyAddWatch(watch, name, unix.IN_OPEN); err != nil {
			t.Skip(err)
		}
	}
	opened := func() bool {
		n, _ := unix.Read(watch, make([]byte, 4096))
		return n > 0
	}
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for name, f := range map[string]func() error{
		"Open":        func() error { _, _, err := Open(fifo); return err },
		"Open a link": func() error { _, _, err := Open(filepath.Join(dir, "link")); return err },
		"Read":        func() error { _, err := Read(fifo, 1); return err },
		"OpenIn":      func() error { _, _, err := OpenIn(d, "fifo"); return err },
	} {
		if err := f(); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: %v", name, err)
		}
		if opened() {
			t.Errorf("%s: it was opened", name)
		}
	}
	if _, err := Read(filepath.Join(dir, "file"), 1); err != nil || !opened() {
		t.Error("the test tests nothing: ", err)
	}
}
