// Package cli holds the commands: their flags, logging, the JSON document, and the run
// of an editor over a tree. Package command reads their command lines, package urfave
// prints their help.
//
// Exit status: 0 all is well; 1 something failed or a check found something;
// 2 usage error. Logs go to stderr, one line a file; stdout is for
// findings and a summary line, or one document.
package cli
