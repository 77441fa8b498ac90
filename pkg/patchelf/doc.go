// Package patchelf speaks patchelf 0.19.1's command line: it parses one, and says for
// an ELF image what the command prints and which change it asks for. It opens and
// writes no file; what it needs of the file system comes in as functions.
//
// The order of execution does not depend on the order of the options. On each file:
//
//	print the interpreter · print, set the OS ABI · print, set the soname · set the
//	interpreter · print the run path · print, clear or set the executable stack ·
//	shrink, remove, set or add to the run path · print, remove, replace, add needed
//	libraries · clear symbol versions · no default libraries · DT_DEBUG · the resolution
//	note
//
// What is printed is therefore what the file said before. Where an option excludes
// others ("print, clear or set") the first of the list wins, and of an option that
// is given twice the last. One change comes out, whatever the number of options: an
// error in any of them leaves the file as it was.
//
// # Where it differs
//
// --rename-dynamic-symbols is parsed and refused: no edit here changes the names of
// symbols, which takes new hash tables. Options that are parsed and have no effect,
// because these edits need none: --page-size, --no-sort, --no-clobber-old-sections.
//
// Names are looked up as the loader does, by the program headers and the dynamic
// section; a file without section headers is edited too. An empty run path leaves no
// entry in the dynamic section. Of a file with both DT_RPATH and DT_RUNPATH one is
// left.
package patchelf
