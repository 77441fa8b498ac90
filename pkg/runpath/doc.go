// Package runpath is the run path as a value: a list of directories, and the
// maps that bring it into the one normal form of this project. It knows neither
// files nor ELF; what has to be asked of them (does this directory hold that
// library?) comes in as a function.
package runpath
