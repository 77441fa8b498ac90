package explain

import (
	"maps"
	"path"
	"slices"

	"cuda-runpath/pkg/loader"
)

// mostBeside bounds the entries of a directory whose subdirectories are looked into.
const mostBeside = 300

// Beside returns a [Case.Provider] that looks into the directories of files that were named
// together, and around the file that lacks a library: its own directory, the one above, what is in that
// one and in lib directories there, and the directories in which NVIDIA's wheels have theirs.
func Beside(l *loader.Loader, files []string) func(name, near string, fits func(file string) bool) string {
	return func(name, near string, fits func(file string) bool) string {
		var dirs []string
		for _, f := range files {
			dirs = append(dirs, path.Dir(l.Path(f)))
		}
		in := func(dir, sub string) {
			if names := l.Files().Names(dir); len(names) <= mostBeside {
				for _, n := range slices.Sorted(maps.Keys(names)) {
					dirs = append(dirs, path.Join(dir, n, sub))
				}
			}
		}
		own := path.Dir(path.Clean(l.Path(near)))
		dirs = append(dirs, own)
		for at, i := path.Dir(own), 0; at != "/" && i < 3; at, i = path.Dir(at), i+1 {
			if i == 0 {
				dirs = append(dirs, at)
				in(at, "")
				in(at, "lib")
			}
			in(path.Join(at, "nvidia"), "lib")
		}
		for _, d := range dirs {
			if at := path.Join(d, name); l.Files().Names(d)[name] && fits(at) {
				return at
			}
		}
		return ""
	}
}
