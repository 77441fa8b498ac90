// Package process says what can be in one process, from files alone.
//
// # The model
//
// A [Start] is what begins a process: a program by the name it is started by (one file with two names is two starts, as
// $ORIGIN is the directory of the name), or a library that somebody opens. To it belong the wrappers on the way, the
// shell scripts and compiled programs that start it in their own place, and the environment that they leave it:
// LD_LIBRARY_PATH, LD_PRELOAD and LD_AUDIT decide what is loaded, but for set-user-ID programs. The program names its
// loader, and the loader has its C library. The package starts finds what a name starts.
//
// A [State] is what is in the process: the objects in the order of loading, the names that they answer to, by which
// rule each was found, and where it was looked for what was not. [Start.Begin] returns the first state, before main.
// A call of dlopen succeeds as a whole, or leaves the state as it was ([loader.Load.Open] has the rules). What failed is remembered beside the state, in Failed, for what is to be said of it; it is not in the
// process.
//
// [State.OpenAll] follows what may be opened: notes (.note.dlopen, which say so), and names in read-only data, which
// are guesses. Of how sure an opening is, its [loader.Cause] tells: what is needed is loaded, what a note names may be,
// what a string names may be a name of something else. The order is that of the objects, and in each that of the file;
// where another order would lead a name to another file, [State.Instead] says so, and what fails only in this order is
// opened at the end ([loader.Opening.Later]).
//
// # What asks what
//
// The package loader answers what one loader does with one name in one state: it searches, compares names and versions,
// and takes back what a call that failed has mapped. Which states there are, and what is opened in them, is asked here.
// What is wrong with a state, and what helps, is the package explain's.
//
// An edit that is planned is a view: the state of a start with [loader.Loader.Edited] files is what it would be with
// their new run paths. Only a start of which [State.Touches] a changed file need be asked again.
package process
