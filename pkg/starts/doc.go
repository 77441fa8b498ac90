// Package starts finds what a name starts. [Behind] follows a wrapper or script to the program that it starts in its
// own place, with what it sets, and a script of Python's to what it imports; [PlaceOf] lists what a directory, or an
// environment of Python's, has to start. Callers go on with [process.Start.Begin], or at once with [Begin]. Nothing is
// run.
package starts
