// Package cli is what the binaries share: flags, logging, the JSON document,
// exit status, man pages and completion, and the run of an editor over a tree.
//
// Exit status: 0 all is well; 1 something failed or a check found something;
// 2 usage error. Logs go to stderr, one line a file; stdout is for
// the JSON document or a summary line.
package cli
