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
	// Interpreter is the loader of the program that opens a library, or one that a wrapper starts by hand; "" for the
	// usual one.
	Interpreter string
	// Environment is what the program has, with what the wrappers set.
	loader.Environment
	// Via are the scripts and wrappers that start it in their own place, the first one first.
	Via []string
	// Before are the programs that are started in its place before it and that have an LD_PRELOAD.
	Before []Start
	// Script is the Python script that the program, an interpreter, is started with; "" for none. Opens is what the
	// script opens.
	Script string
	Opens  []Wanted
	// CTypes are the files of Python's module for opening libraries, if Opens has libraries.
	CTypes []string
	// As is the package that is imported, where the start is known by that and not by its file, script or wrapper.
	// Part: nothing known starts it.
	As   string
	Part bool
	// Sure: the wrappers start it, whatever their unknown parts do.
	Sure bool
	// Set holds the environment variables that wrappers set, by name.
	Set map[string]string
	// Unsure says in words what is not known of its environment. Other says which other program may be started
	// instead.
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
	Name   string // a module's path, or what ctypes is given for a library
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
