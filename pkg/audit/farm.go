package audit

import (
	"os"
	"path/filepath"
	"strings"

	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/runpath"
)

// Farm returns the symbolic links below directories that lead out of them, as symlinkJoin and
// buildEnv of nixpkgs make them: one for each directory in which a file is so found, because
// $ORIGIN of a library is the directory in which the loader found it. Links below linked
// directories count; a directory above an argument, or one that holds a whole system, is not entered.
func Farm(paths []string) []string {
	f := &farm{inside: map[string]bool{}, above: map[string]bool{}, seen: map[[2]string]bool{}}
	reals := make([]string, len(paths))
	for i, p := range paths {
		if real, err := regular.Real(p); err == nil {
			reals[i] = real
			f.enter(real)
		}
	}
	for i, p := range paths {
		if st, err := os.Stat(reals[i]); err == nil && st.IsDir() {
			f.visit(p, reals[i])
		}
	}
	return f.links
}

type farm struct {
	inside map[string]bool // directories that are walked, links resolved
	above  map[string]bool // these, and each directory above one
	seen   map[[2]string]bool
	links  []string
}

// enter notes a directory that is walked.
func (f *farm) enter(real string) {
	f.inside[real] = true
	for dir := real; !f.above[dir]; dir = filepath.Dir(dir) {
		f.above[dir] = true
	}
}

// walked reports whether a path free of links is in a directory that is walked.
func (f *farm) walked(real string) bool {
	for dir := real; !f.inside[dir]; dir = filepath.Dir(dir) {
		if dir == filepath.Dir(dir) {
			return false
		}
	}
	return true
}

// visit takes up the links below a directory, here when its own links are resolved.
func (f *farm) visit(dir, here string) {
	entries, _ := os.ReadDir(dir) // the walk reports one that cannot be read
	for _, e := range entries {
		p, real := within(dir, e.Name()), within(here, e.Name())
		switch {
		case e.IsDir():
			f.visit(p, real)
			continue
		case e.Type()&os.ModeSymlink == 0:
			continue
		}
		to, err := regular.Real(real)
		if err != nil || f.walked(to) {
			continue
		}
		st, err := os.Stat(to)
		switch {
		case err != nil || f.seen[[2]string{here, to}]:
		case st.Mode().IsRegular():
			f.seen[[2]string{here, to}] = true
			f.links = append(f.links, p)
		case st.IsDir() && strings.Count(to, "/") > 1 && filepath.Base(to) != "store" && !f.above[to]:
			f.enter(to)
			f.links = append(f.links, p)
			f.visit(p, to)
		}
	}
}

func within(dir, name string) string { return strings.TrimSuffix(dir, "/") + "/" + name }

// OtherWays examines those of some links that lead to a library whose run path depends on where it
// was found, and that was examined under another path: the walk visits each file once.
func (u *Audit) OtherWays(links []string, all []*Pending) (more []*Pending) {
	done := map[string]bool{}
	for _, p := range all {
		done[p.report.Path] = true
	}
	for _, p := range links {
		abs, err := filepath.Abs(p)
		if f := u.Loader.Files().Open(abs); err == nil && !done[p] && f.ELF != nil && f.Interp == "" &&
			runpath.HasOrigin(f.List) {
			other := u.Take(p, -1)
			u.Examine(other)
			more = append(more, other)
		}
	}
	return more
}

// Unchecked returns a report for each directory among paths below which there is none.
func (u *Audit) Unchecked(paths []string, all []*Pending) (empty []*Pending) {
	var seen []string
	for _, p := range all {
		seen = append(seen, p.report.Path)
	}
	for _, r := range u.System.Unchecked(paths, seen) {
		empty = append(empty, &Pending{report: r})
	}
	return empty
}
