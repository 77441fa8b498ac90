package store

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"cuda-runpath/pkg/regular"
)

// Stores are the stores of a machine.
type Stores struct {
	dirs  func() []string // free of symbolic links; not looked for before that is needed
	known sync.Map        // string, the path of an object → bool, whether it is finished
}

// On returns the stores that are called as Nix's and Guix's are, and those in the directories that are named: "" is
// none.
func On(named ...string) *Stores {
	return &Stores{dirs: sync.OnceValue(func() (dirs []string) {
		for _, dir := range append(named, "/nix/store", "/gnu/store") {
			if dir == "" {
				continue
			}
			if real, err := regular.Real(dir); err == nil && filepath.IsAbs(dir) {
				dirs = append(dirs, real)
			}
		}
		return dirs
	})}
}

// Finished returns the object of a store that a path, absolute and free of symbolic links, is in, if Nix has finished
// it, and else "".
//
// Nix and Guix finish an object by giving all that is in it the time 1 and taking away the permission to write
// (canonicalisePathMetaData in libstore/posix-fs-canonicalise.cc). The object itself is asked, and not the file: cp -a
// brings a file's mode and time along into a package that is being built, and an edit changes them. What lies in .links
// are hard links to files of finished objects.
func (s *Stores) Finished(real string) (object string) {
	if !looksStored(real) {
		return "" // as most paths: no file system is asked
	}
	for _, dir := range s.dirs() {
		if object := In(dir, real); object != "" && s.finished(object) {
			return object
		}
		if links := strings.TrimRight(dir, "/") + "/" + linksName; real == links || strings.HasPrefix(real, links+"/") {
			return links
		}
	}
	return ""
}

const linksName = ".links"

// looksStored reports whether a component of a path has a name as those have that are directly in a store.
func looksStored(p string) bool {
	for name := range strings.SplitSeq(p, "/") {
		if name == linksName || isName(name) {
			return true
		}
	}
	return false
}

// among reports whether a store, or a part of one, lies at or below a path, absolute and free of symbolic links.
func (s *Stores) among(real string) bool {
	return slices.ContainsFunc(s.dirs(), func(dir string) bool {
		return real == dir || real == "/" || strings.HasPrefix(dir, real+"/")
	})
}

// finished looks at an object, once.
func (s *Stores) finished(object string) bool {
	if known, ok := s.known.Load(object); ok {
		return known.(bool)
	}
	st, err := os.Lstat(object)
	is := err == nil && st.Mode().Perm()&0o222 == 0 && st.ModTime().Unix() == 1
	s.known.Store(object, is)
	return is
}

// FinishedError says that what is to be edited is in a finished object of a store.
type FinishedError struct{ Object string }

// Error says what to do instead.
func (e *FinishedError) Error() string {
	return fmt.Sprintf(
		"is in a finished path of a Nix store (%s) and is not edited, because Nix would call it modified: change the "+
			"package, or edit a copy. "+
			"In a build that made its output by cp -a: chmod -R u+w first. --even-in-store edits it anyway", e.Object)
}

// Refuse returns why a file or directory is not to be edited, or nil; it is for [tree.Options].
func (s *Stores) Refuse(real string, dir bool) (err error, among bool) {
	if object := s.Finished(real); object != "" {
		return &FinishedError{object}, false
	}
	return nil, dir && s.among(real)
}
