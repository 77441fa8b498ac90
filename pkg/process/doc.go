// Package process says what can be in one process, from files alone.
//
// # The model
//
// A [Start] is what begins a process: a program, or a library that somebody opens. A file with two names makes two
// starts, because $ORIGIN is the directory of the name. A start includes the wrappers on the way, which are shell
// scripts and compiled programs that start it in their own place. It also includes the environment that they leave:
// LD_LIBRARY_PATH, LD_PRELOAD and LD_AUDIT decide what is loaded, except in set-user-ID programs. The program names
// its loader, and the loader has its C library. The package starts finds what a name starts.
//
// A [State] is what is in the process: the objects in the order of loading, with their names and the rule by which
// each was found. It also says where the loader looked for those that were not found. [Start.Begin] returns the first
// state, before main. A call of dlopen succeeds as a whole, or leaves the state as it was ([loader.Load.Open] has the
// rules). A failed call is remembered in Failed, beside the state, so that it can be reported; it is not in the
// process.
//
// [State.OpenAll] follows what may be opened: what notes name (.note.dlopen), and names in read-only data, which are
// guesses. The [loader.Cause] of an opening tells how sure it is. A needed library is loaded, a library in a note may
// be, and a string may be the name of something else. Objects are followed in their order, and names in the order of
// the file. [State.Instead] tells where another order would lead a name to another file. What fails only in this
// order is opened at the end ([loader.Opening.Later]).
//
// # What asks what
//
// The package loader answers what one loader does with one name in one state: it searches, compares names and
// versions, and takes back what a call that failed has mapped. This package says which states there are, and what is
// opened in them. The package explain says what is wrong with a state, and what helps.
//
// A planned edit is a view: with [loader.Loader.Edited] files, the state of a start is what it would be with their
// new run paths. Only starts whose state State.touches a changed file need to be asked again.
package process
