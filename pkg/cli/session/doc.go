// Package session is a run of a command over files: what its command line says of it, and what is told of each file:
// a line of the log, an element of the JSON document, and at the end a summary. A [Sweep] is a run over all files below
// some paths.
//
// Logs go to stderr, one line a file; stdout is for findings and a summary line, or one document.
package session
