// Package files remembers a file system as the programs in it see it: where paths lead below a root, what directories
// hold, and what there is in the files that were opened, as far as a program's loader reads it. Who loads what is
// package loader's.
package files
