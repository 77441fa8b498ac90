package sysroot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cuda-runpath/pkg/regular"
)

// made writes files below a new directory; a value that begins with "-> " is a symbolic link.
func made(t *testing.T, files map[string]string) Root {
	t.Helper()
	root := t.TempDir()
	for name, data := range files {
		at := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		if target, ok := strings.CutPrefix(data, "-> "); ok {
			err = errors.Join(err, os.Symlink(target, at))
		} else {
			err = errors.Join(err, os.WriteFile(at, []byte(data), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return Root{Dir: root}
}

func TestLinksStayInside(t *testing.T) {
	r := made(t, map[string]string{
		"usr/lib/x":    "x",
		"lib":          "-> usr/lib",
		"absolute":     "-> /usr/lib/x",
		"up":           "-> ../../../../../../../../usr/lib/x",
		"dir/chain":    "-> ../absolute",
		"out":          "-> /etc/hostname.of.the.machine",
		"loop":         "-> loop2",
		"loop2":        "-> loop",
		"through/file": "-> /usr/lib/x/y",
		"here":         "-> .",
	})
	for name, want := range map[string]string{
		"/usr/lib/x":              "/usr/lib/x",
		"usr//lib/./x":            "/usr/lib/x",
		"/lib/x":                  "/usr/lib/x",
		"/lib/../lib/x":           "/usr/lib/x",
		"/absolute":               "/usr/lib/x",
		"/up":                     "/usr/lib/x",
		"/dir/chain":              "/usr/lib/x",
		"/../../usr":              "/usr",
		"/here/here/lib/x":        "/usr/lib/x",
		"/":                       "/",
		"":                        "/",
		"/usr/lib/../../absolute": "/usr/lib/x",
		"/lib/":                   "/usr/lib",
	} {
		if got, err := r.Resolve(name); err != nil || got != want {
			t.Errorf("Resolve(%q) = %q, %v; want %q", name, got, err, want)
		}
	}
	for name, want := range map[string]error{
		"/out": fs.ErrNotExist, "/loop": syscall.ELOOP, "/through/file": syscall.ENOTDIR,
		"/usr/lib/x/y": syscall.ENOTDIR, "/absolute/": syscall.ENOTDIR, "/usr/lib/x/..": syscall.ENOTDIR, "/none/x": fs.ErrNotExist,
	} {
		if got, err := r.Resolve(name); !errors.Is(err, want) {
			t.Errorf("Resolve(%q) = %q, %v; want %v", name, got, err, want)
		} else if strings.Contains(err.Error(), r.Dir) {
			t.Errorf("%v names the machine's path", err)
		}
	}
	steps, err := r.Steps("/dir/chain")
	if want := []string{"/", "/dir", "/dir/chain", "/absolute", "/usr", "/usr/lib", "/usr/lib/x"}; err != nil || !slices.Equal(steps, want) {
		t.Errorf("Steps: %q, %v", steps, err)
	}
	if b, err := r.ReadFile("/up", 10); err != nil || string(b) != "x" {
		t.Errorf("ReadFile: %q, %v", b, err)
	}
}

func TestReadsEndAndAreBounded(t *testing.T) {
	r := made(t, map[string]string{"big": strings.Repeat("x", 1000), "dir/x": ""})
	if b, err := r.ReadFile("/big", 1000); err != nil || len(b) != 1000 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if _, err := r.ReadFile("/big", 999); err == nil {
		t.Error("more than the limit was read")
	}
	if _, err := r.ReadFile("/dir", 999); err == nil {
		t.Error("a directory was read")
	}
	if err := syscall.Mkfifo(filepath.Join(r.Dir, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { _, err := r.ReadFile("/fifo", 10); done <- err }()
	select {
	case err := <-done:
		if err == nil {
			t.Error("a FIFO was read")
		}
	case <-time.After(time.Minute):
		t.Fatal("a FIFO without a writer is waited for")
	}
}

func TestGlob(t *testing.T) {
	r := made(t, map[string]string{"a/1/x": "", "a/2/x": "", "a/.3/x": "", "b": "-> a", "a/4": ""})
	for pattern, want := range map[string][]string{
		"/a/*/x": {"/a/1/x", "/a/2/x"}, "/b/[12]/x": {"/b/1/x", "/b/2/x"}, "/a/.*/x": {"/a/.3/x"},
		"/none/*": nil, "/a/4": {"/a/4"}, "/a/5": nil,
	} {
		if got, err := r.Glob(pattern); err != nil || !slices.Equal(got, want) {
			t.Errorf("Glob(%q) = %q, %v; want %q", pattern, got, err, want)
		}
	}
	if _, err := r.Glob("/["); err == nil {
		t.Error("a bad pattern")
	}
}

// As in the kernel, a path leads through at most 40 links (path_resolution(7)), each of which may be sound.
func TestFortyLinks(t *testing.T) {
	files := map[string]string{"file": "x", "1": "-> file"}
	for i := 2; i <= 41; i++ {
		files[strconv.Itoa(i)] = "-> " + strconv.Itoa(i-1)
	}
	r := made(t, files)
	if got, err := r.Resolve("/40"); err != nil || got != "/file" {
		t.Errorf("40 links: %q, %v", got, err)
	}
	if got, err := r.Resolve("/41"); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("41 links: %q, %v", got, err)
	}
	if got, err := regular.Real(filepath.Join(r.Dir, "40")); err != nil || filepath.Base(got) != "file" {
		t.Errorf("40 links: %q, %v", got, err)
	}
	// The kernel agrees.
	if _, err := os.Stat(filepath.Join(r.Dir, "40")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(r.Dir, "41")); !errors.Is(err, syscall.ELOOP) {
		t.Error(err)
	}
}

// What a link holds, and where its end is for this machine, are asked of the link inside, whatever leads to it.
func TestReadlinkAndOutside(t *testing.T) {
	outside := t.TempDir()
	if err := os.Symlink("not/yours", filepath.Join(outside, "link")); err != nil {
		t.Fatal(err)
	}
	r := made(t, map[string]string{"link": "-> target", "out": "-> " + outside, "up": "-> /../../../../../../../.." + outside, "sub/x": "", "dir": "-> /sub", "escape": "-> /../sub/x"})
	for name, want := range map[string]string{"/link": "target", "link": "target", "/dir": "/sub", "/out": outside, "/out/link": "", "/up/link": "", "/sub/x": "", "/none": ""} {
		if got, err := r.Readlink(name); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{"/escape": "/sub/x", "/dir/x": "/sub/x", "/": "/", "/out": "", "/link": ""} {
		if got, err := r.Outside(name); (err == nil) != (want != "") || want != "" && got != filepath.Join(r.Dir, want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	here := Root{}
	if got, err := here.Readlink(outside + "/link"); got != "not/yours" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := here.Outside("/proc/self/"); got != "/proc/self" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
