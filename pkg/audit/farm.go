package audit

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cuda-runpath/pkg/explain"
	"cuda-runpath/pkg/runpath"
)

// Farm returns the symbolic links below directories that lead out of them, as symlinkJoin and
// buildEnv of nixpkgs make them: one for each directory in which a file is so found, because
// $ORIGIN of a library is the directory in which the loader found it. Links below linked
// directories count; a directory above an argument, or one that holds a whole system, is not entered.
func Farm(paths []string) []string {
	f := &farm{seen: map[[2]string]bool{}}
	for _, p := range paths {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			f.inside = append(f.inside, real)
		}
	}
	for _, p := range paths {
		if st, err := os.Stat(p); err == nil && st.IsDir() {
			f.visit(p)
		}
	}
	return f.links
}

type farm struct {
	inside []string // directories that are walked, links resolved
	seen   map[[2]string]bool
	links  []string
}

func (f *farm) visit(dir string) {
	entries, _ := os.ReadDir(dir) // the walk reports one that cannot be read
	here, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		p := within(dir, e.Name())
		switch {
		case e.IsDir():
			f.visit(p)
			continue
		case e.Type()&os.ModeSymlink == 0:
			continue
		}
		to, err := filepath.EvalSymlinks(p)
		if err != nil || slices.ContainsFunc(f.inside, func(d string) bool { return explain.IsBelow(to, d) }) {
			continue
		}
		st, err := os.Stat(to)
		switch {
		case err != nil || f.seen[[2]string{here, to}]:
		case st.Mode().IsRegular():
			f.seen[[2]string{here, to}] = true
			f.links = append(f.links, p)
		case st.IsDir() && strings.Count(to, "/") > 1 && filepath.Base(to) != "store" &&
			!slices.ContainsFunc(f.inside, func(d string) bool { return explain.IsBelow(d, to) }):
			f.inside = append(f.inside, to)
			f.links = append(f.links, p)
			f.visit(p)
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
		if f := u.a.Loader.Files().Open(abs); err == nil && !done[p] && f.ELF != nil && f.Interp == "" &&
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
	for _, r := range u.a.Unchecked(paths, seen) {
		empty = append(empty, &Pending{report: r})
	}
	return empty
}
