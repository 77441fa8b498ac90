package fixup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cuda-runpath/pkg/store"
)

// LibrariesOutside returns the symbolic links of the tree that lead outside it to a library,
// or to a directory with one, in no order. Links are not followed, so these files are left
// as they are. Links into a Nix store lead to other packages, and do not count.
func (ix *Index) LibrariesOutside() (out []string) {
	var roots []string
	for _, root := range ix.sources.Paths {
		roots = append(roots, filepath.Clean(absolute(root)))
		if real, err := filepath.EvalSymlinks(root); err == nil {
			roots = append(roots, absolute(real))
		}
	}
	inside := func(p string) bool {
		return slices.ContainsFunc(roots, func(root string) bool { return below(p, root) })
	}
	holds := map[string]bool{} // by real path
	for _, l := range ix.links {
		dir := strings.TrimSuffix(l.dir, "/")
		target, err := os.Readlink(dir + "/" + l.name)
		if err != nil {
			continue
		}
		if !strings.HasPrefix(target, "/") {
			target = absolute(dir) + "/" + target
		}
		if inside(filepath.Clean(target)) { // most do, and are not followed to see it
			continue
		}
		real, err := filepath.EvalSymlinks(absolute(dir) + "/" + l.name)
		if err != nil || inside(real) || store.Contains(real) {
			continue
		}
		st, err := os.Stat(real)
		if err != nil || !st.IsDir() && !loadable(l.name) {
			continue // files are many where each is a link: most that are no library are told by the name
		}
		has, known := holds[real]
		if !known {
			has = ix.hasLibrary(real, st.IsDir())
			holds[real] = has
		}
		if has {
			out = append(out, dir+"/"+l.name)
		}
	}
	return out
}

// hasLibrary reports whether a file is a library, or one below a directory is.
func (ix *Index) hasLibrary(p string, isDir bool) (found bool) {
	is := func(p string) bool {
		lib := ix.readFile(p)
		return lib != nil && lib.Err == nil && lib.SkipReason == "" && !lib.program()
	}
	if !isDir {
		return is(p)
	}
	belowDir(p, func(dir string, names []os.DirEntry) bool {
		found = slices.ContainsFunc(names, func(e os.DirEntry) bool { return e.Type().IsRegular() && loadable(e.Name()) && is(dir+"/"+e.Name()) })
		return !found
	})
	return found
}
