package starts

import (
	"strings"

	"cuda-runpath/pkg/loader"
)

// Opener is the interpreter of Python that a path is for, which opens the libraries below it.
type Opener struct {
	Path, Program string // as they were named; the interpreter, a path below the root
	below         string
}

// Openers are those of the paths that have one.
type Openers []Opener

// OpenersOf returns the interpreters of some paths on this machine.
func OpenersOf(l *loader.Loader, paths []string) (all Openers) {
	for _, path := range paths {
		real := l.Files().At(l.Absolute(l.Path(path))).Host
		if p, _ := pythonIn(l, l.Inside(real)); p != nil && real != "" {
			all = append(all, Opener{path, p.Start.File, real + "/"})
		}
	}
	return all
}

// Program returns the interpreter that opens a file, by its real path; "" for none.
func (all Openers) Program(file string) string {
	for _, p := range all {
		if strings.HasPrefix(file, p.below) {
			return p.Program
		}
	}
	return ""
}

// Loader is [loader.Loader.LoaderOf] the program that opens a library, by its real path; "" for what is no library.
func (all Openers) Loader(l *loader.Loader, file string) string {
	program := all.Program(file)
	if program == "" {
		return ""
	}
	is := l.Files().Open(l.Inside(file))
	if abi, known := is.ABI(); known && is.Interp == "" {
		return l.LoaderOf(program, abi)
	}
	return ""
}
