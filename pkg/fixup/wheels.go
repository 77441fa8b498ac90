package fixup

import (
	"cmp"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"cuda-runpath/pkg/runpath"
	"cuda-runpath/pkg/store"
)

// If every wheel is a package of its own (nixpkgs' python packages, uv2nix), another wheel's library is not where pip
// would put it. An entry such as $ORIGIN/../../nvidia/cublas/lib leads out of the package, to nothing.

// sitePackages returns the directories of wheels of the inputs, in their order.
func (s *Sources) sitePackages() (dirs []string) {
	for _, l := range s.Libs {
		l = absolute(l)
		for _, pattern := range []string{"python*/site-packages", "python*/dist-packages", "lib/python*/site-packages"} {
			found, _ := fs.Glob(os.DirFS(l), pattern)
			for _, dir := range found {
				dirs = append(dirs, l+"/"+dir)
			}
		}
		if base := path.Base(l); base == "site-packages" || base == "dist-packages" {
			dirs = append(dirs, l)
		}
	}
	return dirs
}

// fromOtherWheels returns the candidates for a name in the inputs' wheels that the entries of a file's run path lead
// to.
func (r *Resolver) fromOtherWheels(o *Object, name string) (out []Candidate) {
	for _, e := range r.inWheels(o) {
		if c, ok := r.ix.candidate(e.dir, name, wheelLevel); ok {
			out = append(out, c)
		}
	}
	return out
}

// inWheels returns the directories in the inputs' wheels that the entries of a file's run path would lead to if all
// wheels were in one place.
func (r *Resolver) inWheels(o *Object) (out []entry) {
	own := siteOf(o.Real)
	if own == "" || !runpath.HasOrigin(o.List) {
		return nil
	}
	for _, e := range runpath.Parse(o.List) {
		at, ok := expand(o, e)
		wheel, in := strings.CutPrefix(path.Clean(at), own+"/")
		if !ok || !in || !runpath.HasOrigin(e) {
			continue
		}
		for _, site := range r.ix.sites() {
			out = append(out, entry{text: e, dir: r.ix.dir(site + "/" + wheel)})
		}
	}
	return out
}

// siteOf returns the directory of wheels with a file of an installed wheel, or "".
func siteOf(file string) string {
	for _, name := range []string{"/site-packages/", "/dist-packages/"} {
		if i := strings.LastIndex(file, name); i >= 0 {
			return file[:i+len(name)-1]
		}
	}
	return ""
}

// wheelLevel is the level of candidates found in wheels. It comes after the tree, the directories in its libraries'
// run paths, and those of Sources.Libs.
const wheelLevel = 3

// inWheels returns the directories of the inputs' wheels that hold libraries, those of an
// input in the order of their paths.
func (ix *Index) inWheels() (dirs []string) {
	for _, site := range ix.sites() {
		belowDir(site, func(dir string, names []os.DirEntry) bool {
			if slices.ContainsFunc(names, func(e os.DirEntry) bool { return libraryName(e.Name()) && !e.IsDir() }) {
				dirs = append(dirs, dir)
			}
			return true
		})
	}
	return dirs
}

// maxBelow bounds how many directories below one are looked at.
const maxBelow = 20_000

// belowDir calls look for a directory and those in it, without following links, until look returns false.
func belowDir(dir string, look func(dir string, names []os.DirEntry) bool) {
	queue := []string{dir}
	for n := 0; len(queue) > 0 && n < maxBelow; n++ {
		d := queue[0]
		queue = queue[1:]
		names, err := os.ReadDir(d)
		if err != nil {
			continue
		}
		if !look(d, names) {
			return
		}
		for _, e := range names {
			if e.IsDir() {
				queue = append(queue, d+"/"+e.Name())
			}
		}
	}
}

// belowInputs returns libraries of a name that a file could load, from anywhere below the inputs' packages, where
// nothing searches.
func (r *Resolver) belowInputs(p *Plan, name string) (out []string) {
	for _, dir := range r.deep()[name] {
		if c, ok := r.ix.candidate(r.ix.dir(dir), name, -1); ok && len(out) < maxNear && r.refuse(p, name, c) == "" {
			out = append(out, dir)
		}
	}
	return out
}

// deep returns where the libraries below the inputs' packages are, by name.
func (s *Sources) deep() map[string][]string {
	deep, seen := map[string][]string{}, map[string]bool{}
	for _, l := range s.Libs {
		l = absolute(l)
		if l = cmp.Or(store.Path(l), l); seen[l] {
			continue
		}
		seen[l] = true
		belowDir(l, func(dir string, names []os.DirEntry) bool {
			for _, e := range names {
				if libraryName(e.Name()) && !e.IsDir() {
					deep[e.Name()] = append(deep[e.Name()], dir)
				}
			}
			return true
		})
	}
	return deep
}
