package files

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// kernel is where a path leads by the kernel's own account.
//
// It may count the links of one path twice: a walk that reaches ".." while anything is being
// mounted, in whatever namespace, starts again with the links already counted (Linux
// fs/namei.c, follow_dotdot_rcu and do_filp_open). So a path of more than half as many links as
// are allowed fails with ELOOP now and then, and is asked for again.
func kernel(p string) (host string, errno error) {
	fd, err := unix.Open(p, unix.O_PATH|unix.O_CLOEXEC, 0)
	for range 20 {
		if err != unix.ELOOP {
			break
		}
		fd, err = unix.Open(p, unix.O_PATH|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	host, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	return host, err
}

// Paths through random trees of directories and links lead where the kernel says, whatever
// was asked before.
func TestPlaceIsTheKernels(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	names := []string{"a", "b", "c", ".h", "d.so"}
	rng := rand.New(rand.NewSource(1))
	pick := func() string { return names[rng.Intn(len(names))] }
	random := func(parts int) string {
		var p []string
		for range 1 + rng.Intn(parts) {
			switch rng.Intn(8) {
			case 0:
				p = append(p, "..")
			case 1:
				p = append(p, []string{".", "", "..."}[rng.Intn(3)])
			default:
				p = append(p, pick())
			}
		}
		return strings.Join(p, "/")
	}
	for round := range 60 {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		dirs := []string{dir}
		for range 30 {
			at := dirs[rng.Intn(len(dirs))] + "/" + pick()
			switch rng.Intn(6) {
			case 0, 1:
				if os.Mkdir(at, 0o755) == nil {
					dirs = append(dirs, at)
				}
			case 2:
				os.WriteFile(at, nil, 0o644)
			case 3:
				os.Symlink(dir+"/"+random(4), at)
			default:
				os.Symlink(random(4), at)
			}
		}
		// A chain of links about as long as the kernel follows.
		last := dir
		for i := range 38 + rng.Intn(5) {
			next := fmt.Sprintf("%s/chain%d", dir, i)
			target := last
			if i%2 == 0 && i > 0 {
				target = filepath.Base(last)
			}
			os.Symlink(target, next)
			last = next
		}
		fs, only := New(Options{}), New(Options{}) // of the second, nothing is asked but to open
		for range 400 {
			p := dir + "/" + random(5)
			if rng.Intn(4) == 0 {
				p = fmt.Sprintf("%s/chain%d/%s", dir, rng.Intn(43), random(2))
			}
			if rng.Intn(10) == 0 {
				p += "/"
			}
			host, errno := kernel(p)
			at := fs.At(p)
			switch {
			case errno == nil && (at.Errno != 0 || at.Host != host):
				t.Errorf("round %d: %s leads to %s, not %s (%v)", round, p, host, at.Host, at.Errno)
			case errno != nil && at.Errno != errno:
				t.Errorf("round %d: %s: %v, not %v (%s)", round, p, errno, at.Errno, at.Host)
			}
			for _, fs := range []*Files{fs, only} {
				if f := fs.Open(p); errno == nil && f.Path != host || errno != nil && f.Errno != errno {
					t.Errorf("round %d: %s is opened as %q (%v), not %s (%v)", round, p, f.Path, f.Errno, host, errno)
				}
			}
		}
		if t.Failed() {
			return
		}
	}
}
