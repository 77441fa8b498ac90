package autopatchelf

import (
	"strings"

	"cuda-runpath/pkg/loader"
	"cuda-runpath/pkg/regular"
	"cuda-runpath/pkg/starts"
)

// python is the interpreter of Python that a path of the arguments is for.
type python struct{ path, real, program string }

// pythons are those of the paths that have one.
type pythons []python

func pythonsOf(paths []string) (all pythons) {
	l, err := loader.New(loader.Options{NoTries: true})
	for _, path := range paths {
		real, unreal := regular.Real(path)
		if err != nil || unreal != nil {
			continue
		}
		if p, _ := starts.PythonIn(l, real); p != nil {
			all = append(all, python{path, real + "/", p.Start.File})
		}
	}
	return all
}

// opens returns the interpreter that opens a file, by its real path; "" for none.
func (all pythons) opens(file string) string {
	for _, p := range all {
		if strings.HasPrefix(file, p.real) {
			return p.program
		}
	}
	return ""
}
