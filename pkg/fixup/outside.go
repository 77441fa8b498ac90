package fixup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cuda-runpath/pkg/store"
)

// mayLeadOutside reports whether what a symbolic link of the tree holds is, read as text, a
// path outside the tree.
func (s *Sources) mayLeadOutside(dir, name string) bool {
	target, err := os.Readlink(dir + "/" + name)
	if err != nil {
		return false
	}
	if !strings.HasPrefix(target, "/") {
		target = absolute(dir) + "/" + target
	}
	target = filepath.Clean(target)
	return !slices.ContainsFunc(s.Paths, func(root string) bool { return below(target, filepath.Clean(absolute(root))) })
}

// LibrariesOutside returns the symbolic links of the tree that lead outside it to a library,
// or to a directory with one, in no order. Links are not followed, so these files are left
// as they are. Links into a Nix store lead to other packages, and do not count.
func (ix *Index) LibrariesOutside() (out []string) {
	var roots []string
	for _, root := range ix.sources.Paths {
		if real, err := filepath.EvalSymlinks(root); err == nil {
			roots = append(roots, absolute(real))
		}
	}
	holds := map[string]bool{} // by real path
	for _, l := range ix.outside {
		link := strings.TrimSuffix(l.dir, "/") + "/" + l.name
		real, err := filepath.EvalSymlinks(link)
		if err != nil {
			continue
		}
		if real = absolute(real); slices.ContainsFunc(roots, func(root string) bool { return below(real, root) }) || store.Contains(real) {
			continue
		}
		st, err := os.Stat(real)
		if err != nil || !st.IsDir() && !libraryName(l.name) && !strings.HasSuffix(l.name, ".node") {
			continue // files are many where each is a link: most that are no library are told by the name
		}
		has, known := holds[real]
		if !known {
			has = ix.hasLibrary(real, st)
			holds[real] = has
		}
		if has {
			out = append(out, link)
		}
	}
	return out
}

// hasLibrary reports whether a file is a library, or one of the first files of a directory is.
func (ix *Index) hasLibrary(p string, st os.FileInfo) (found bool) {
	is := func(p string) bool {
		lib := ix.readFile(p)
		return lib != nil && lib.Err == nil && lib.SkipReason == "" && !lib.program()
	}
	if !st.IsDir() {
		return st.Mode().IsRegular() && is(p)
	}
	left := 2000 // files: a link may lead to "/"
	belowDir(p, func(dir string, names []os.DirEntry) bool {
		for _, e := range names {
			if e.Type().IsRegular() {
				if left--; left < 0 {
					return false
				}
				found = found || is(dir+"/"+e.Name())
			}
		}
		return !found
	})
	return found
}
