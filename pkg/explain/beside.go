package explain

import (
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"cuda-runpath/pkg/loader"
)

// mostBeside bounds the entries of a directory whose subdirectories are looked into.
const mostBeside = 300

// Among returns a [Case.Provider] that looks into the directories of files that were named together.
func Among(l *loader.Loader, files []string) func(name, near string, fits func(file string) bool) string {
	holders := sync.OnceValue(func() map[string][]string { // the directories that hold a name
		of, seen := map[string][]string{}, map[string]bool{}
		for _, f := range files {
			dir := path.Dir(l.Path(f))
			if seen[dir] {
				continue
			}
			seen[dir] = true
			for name := range l.Files().Names(dir) {
				of[name] = append(of[name], dir)
			}
		}
		return of
	})
	return func(name, _ string, fits func(file string) bool) string {
		for _, dir := range holders()[name] {
			if at := path.Join(dir, name); fits(at) {
				return at
			}
		}
		return ""
	}
}

// provide returns the nearest fitting file of a name or soname for a file that lacks it; "" for none. Only the file's
// owner and root may control its directory. It looks in the file's own directory and those below, in the one above
// and those below that, and where NVIDIA's wheels have theirs. Then it asks the provider.
func (c *Case) provide(name, near string, fits func(file string) bool) string {
	near = path.Clean(c.Loader.Path(near))
	ours := func(file string) bool { return fits(file) && c.controlled(path.Dir(file), near) }
	files, own := c.Loader.Files(), path.Dir(near)
	dirs := []string{}
	in := func(dir string, sub ...string) {
		dirs = append(dirs, dir)
		if names := files.Names(dir); len(names) <= mostBeside {
			for _, sub := range sub {
				for _, n := range slices.Sorted(maps.Keys(names)) {
					dirs = append(dirs, path.Join(dir, n, sub))
				}
			}
		}
	}
	in(own, "")
	for at, i := path.Dir(own), 0; at != "/" && i < 3; at, i = path.Dir(at), i+1 {
		if i == 0 {
			in(at, "", "lib")
		}
		in(path.Join(at, "nvidia"), "lib")
	}
	for _, d := range dirs {
		if at := path.Join(d, name); files.Names(d)[name] && ours(at) {
			return at
		}
	}
	if c.Provider != nil {
		return c.Provider(name, near, ours)
	}
	return ""
}

// controlled reports whether only root and the owner of a file can put something into a directory, or replace it.
// Whoever controls a directory above both controls the file already.
func (c *Case) controlled(dir, near string) bool {
	owner := func(name string) (uid uint32, mode os.FileMode, ok bool) {
		info, err := os.Lstat(name)
		if err != nil {
			return 0, 0, false
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		return st.Uid, info.Mode(), ok
	}
	of, _, ok := owner(c.Loader.Host(near))
	real, _, err := c.Loader.Files().Resolve(dir)
	if !ok || err != nil {
		return false
	}
	above, _, err := c.Loader.Files().Resolve(path.Dir(near))
	if err != nil {
		return false
	}
	for _, way := range [][2]string{{real, above}, {c.Loader.Host(dir), c.Loader.Host(path.Dir(near))}} {
		for at := way[0]; at != "/" && at != "." && way[1] != at && !strings.HasPrefix(way[1], at+"/"); at = path.Dir(at) {
			uid, mode, ok := owner(at)
			link := mode&os.ModeSymlink != 0
			if !ok || uid != 0 && uid != of || !link && mode.Perm()&0o002 != 0 && (mode&os.ModeSticky == 0 || at == way[0]) {
				return false
			}
		}
	}
	return true
}
