package fixup

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/store"
)

// roots are paths, with their places among the arguments.
type roots map[string]int

// rootsOf returns the roots for paths, as they are spelled.
func rootsOf(paths []string, spelled func(string) string) roots {
	r := make(roots, len(paths))
	for i, p := range paths {
		p = spelled(p)
		if _, again := r[p]; !again {
			r[p] = i
		}
	}
	return r
}

// over returns the place of the first root that a path is or is below; -1 for none. Only roots that keep accepts
// count; nil accepts all.
func (r roots) over(p string, keep func(root string) bool) int {
	first := -1
	for at := p; ; {
		if i, is := r[at]; is && (first < 0 || i < first) && (keep == nil || keep(at)) {
			first = i
		}
		cut := strings.LastIndexByte(at, '/')
		if cut < 0 || at == "/" {
			return first
		}
		at = cmp.Or(at[:cut], "/")
	}
}

// mayLeadOutside reports whether the target of a symbolic link of the tree, read as text, is a path outside the tree.
func (r roots) mayLeadOutside(dir, name string) bool {
	target, err := os.Readlink(dir + "/" + name)
	if err != nil {
		return false
	}
	if !strings.HasPrefix(target, "/") {
		target = absolute(dir) + "/" + target
	}
	return r.over(filepath.Clean(target), nil) < 0
}

// LibrariesOutside returns the symbolic links of the tree that lead outside it to a library, or to a directory with
// one, unsorted. The walk follows no links, so these files stay as they are. Links into a Nix store lead to other
// packages, and do not count.
func (ix *Index) LibrariesOutside() (out []string) {
	tree := rootsOf(ix.sources.Paths, func(p string) string {
		real, err := regular.Real(p)
		if err != nil {
			return p
		}
		return real
	})
	holds := map[string]bool{} // by real path
	for _, l := range ix.outside {
		link := strings.TrimSuffix(l.dir, "/") + "/" + l.name
		real, err := regular.Real(link)
		if err != nil {
			continue
		}
		if tree.over(real, nil) >= 0 || store.Contains(real) {
			continue
		}
		st, err := os.Stat(real)
		if err != nil || !st.IsDir() && !libraryName(l.name) && !strings.HasSuffix(l.name, ".node") {
			continue // some trees have many links, and the name rules out most that are no library
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

// hasLibrary reports whether a file, or one of the first files of a directory, is a library.
func (ix *Index) hasLibrary(p string, st os.FileInfo) (found bool) {
	is := func(p string) bool {
		lib := ix.file(p)
		return lib != nil && lib.err == nil && lib.skipReason == "" && !lib.program()
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
