package process

import (
	"maps"
	"slices"
	"strings"

	"cuda-runpath/pkg/loader"
)

// Start is what begins a process.
type Start struct {
	// File is the program, or the library that is loaded as one: a path below the root, by the name that it is started by.
	File string
	// Interpreter is that of the program that opens a library, or a loader that a wrapper starts by hand; "" for the usual
	// one.
	Interpreter string
	// Environment is what the program has, with what the wrappers set.
	loader.Environment
	// Via are the scripts and wrappers that start it in their own place, the first one first.
	Via []string
	// Script is the script of Python's that the program, its interpreter, is started with; "" for none. Opens is what that
	// opens.
	Script string
	Opens  []Wanted
	// CTypes are the files of the module by which Python opens libraries, where it is to open some.
	CTypes []string
	// As is what a start of a place is known by, where that is not its file, script or wrapper: the package that is
	// imported. Part: nothing that is known starts it.
	As   string
	Part bool
	// Sure: nothing that is not known keeps them from starting it.
	Sure bool
	// Set are the variables of the environment that wrappers set, by their names.
	Set map[string]string
	// Unsure says in words what of its environment, and Other which program instead of this, is not known.
	Unsure, Other []string
}

// Sets says in words what the wrappers set; "" where last is false, or they set nothing.
func (t *Start) Sets(last bool) string {
	if !last || len(t.Set) == 0 {
		return ""
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(t.Set)) {
		words = append(words, name+"="+t.Set[name])
	}
	return ", with " + strings.Join(words, ", ")
}

// Wanted is what a script has its interpreter open.
type Wanted struct {
	Name   string // of a module its path; of a library what ctypes is given
	Module bool
	By     string // the script, or module, that says so
	Sure   bool   // it is opened whenever the script is run, as far as its text shows
	Global bool   // what comes later finds its symbols
}

// Name is what a start is known by: the package that is imported, the script, the wrapper, or the program.
func (t *Start) Name() string {
	switch {
	case t.As != "":
		return t.As
	case t.Script != "":
		return t.Script
	case len(t.Via) > 0:
		return t.Via[0]
	}
	return t.File
}
