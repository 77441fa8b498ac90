// Package syntax splits scripts into tokens, as far as finding the calls in them that load a library needs, and says
// what a script of Python's opens.
//
// It reads text; it opens no files.
package syntax
