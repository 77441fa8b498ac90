// Package runpath is the run path as a value: a list of directories ([Parse]), and the maps that bring it into the
// one normal form of this project. A caller says in [Settings] what it wants and what it knows of a file, and calls
// [Settings.Apply], or [Shrink]. The package knows neither files nor ELF: what it asks of them (does this directory
// hold that library?) comes in as a function.
package runpath
