package audit

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"cuda-runpath/pkg/plainfile"
	"cuda-runpath/pkg/store"
	"cuda-runpath/pkg/sysroot"
)

// Closure returns the store paths that paths need at run time, themselves
// included, as nix-store -qR says. Arguments may be inside a store path. With a
// root other than "" they are paths below it, and it is that root's store which is asked.
func Closure(root string, paths []string) ([]string, error) {
	var roots []string
	for _, p := range paths {
		real, err := sysroot.Realpath(p)
		if root != "" {
			real, err = sysroot.Root{Dir: root}.Resolve(p)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		object := store.Path(real)
		if object == "" {
			return nil, fmt.Errorf("%s is not in a Nix store", p)
		}
		roots = append(roots, object)
	}
	out, err := nixStore(root, append([]string{"-qR"}, roots...)...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// nixStore asks the store of a root, "" for this machine's.
func nixStore(root string, args ...string) ([]string, error) {
	if root != "" {
		dir, err := filepath.Abs(root) // what is relative is a store's name to Nix
		if err != nil {
			return nil, err
		}
		args = append([]string{"--store", dir}, args...)
	}
	cmd := exec.Command("nix-store", args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		if text := strings.TrimSpace(stderr.String()); text != "" {
			err = fmt.Errorf("%s", text)
		}
		return nil, fmt.Errorf("nix-store %s: %w", strings.Join(args[:min(len(args), 3)], " "), err)
	}
	return strings.Fields(string(out)), nil
}

// closures asks Nix what a store path brings along, once each.
type closures struct {
	root     string
	mu       sync.Mutex
	off      bool
	requires map[string][]string
	sizes    map[string]int64
}

// Saved returns what says how many bytes a store path's closure would lose without one of its
// references; false where the store of a root, "" for this machine's, does not know.
func Saved(root string) func(pkg, ref string) (bytes int64, ok bool) {
	return (&closures{root: root}).saved
}

func (c *closures) of(p string) []string {
	if r, ok := c.requires[p]; ok {
		return r
	}
	if c.requires == nil {
		c.requires, c.sizes = map[string][]string{}, map[string]int64{}
	}
	r, err := nixStore(c.root, "-qR", p)
	if err != nil {
		c.off = true
	}
	c.requires[p] = r
	return r
}

// saved returns the bytes that a package's closure would lose with a reference,
// where nothing else in the package refers to that path; ok is false where Nix
// does not know.
func (c *closures) saved(pkg, ref string) (bytes int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.off {
		return 0, false
	}
	direct, err := nixStore(c.root, "-q", "--references", pkg)
	if err != nil {
		c.off = true
		return 0, false
	}
	keep := map[string]bool{pkg: true}
	for _, d := range direct {
		if d != ref && d != pkg {
			for _, p := range c.of(d) {
				keep[p] = true
			}
		}
	}
	for _, p := range c.of(ref) {
		if keep[p] {
			continue
		}
		if _, known := c.sizes[p]; !known {
			out, err := nixStore(c.root, "-q", "--size", p)
			if err != nil || len(out) != 1 {
				c.off = true
				return 0, false
			}
			c.sizes[p], _ = strconv.ParseInt(out[0], 10, 64)
		}
		bytes += c.sizes[p]
	}
	return bytes, !c.off
}

func size(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%d kB", (n+999)/1000)
}

// buildTools are outputs that a program needs while it is built only; the runtime
// libraries are in outputs of their own (gcc-13.3.0-lib, cuda_cudart-12.4-lib).
var buildTools = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(gcc|clang|llvm|rustc|go|ghc|cuda_nvcc|binutils)(-wrapper|-unwrapped)?-[0-9][0-9.]*(-unwrapped|-dev)?$|-stubs$|-dev$`)
})

// refersElsewhere reports whether a file has a store path's hash outside its run path.
func (a *Auditor) refersElsewhere(file, hash, list string) bool {
	key := file + "\x00" + hash
	if v, ok := a.hashes.Load(key); ok {
		return v.(bool)
	}
	elsewhere := countIn(file, hash) > strings.Count(list, hash)
	a.hashes.Store(key, elsewhere)
	return elsewhere
}

// countIn counts occurrences of a short text in a file.
func countIn(file, text string) int {
	f, _, err := plainfile.Open(file)
	if err != nil {
		return 0
	}
	defer f.Close()
	n := 0
	buf := make([]byte, 0, 1<<20)
	for {
		m, err := f.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+m]
		n += strings.Count(string(buf), text)
		// Keep what could be the beginning of an occurrence; it cannot be a whole one.
		keep := min(len(buf), len(text)-1)
		buf = buf[:copy(buf[:cap(buf)], buf[len(buf)-keep:])]
		if err != nil {
			return n
		}
	}
}
