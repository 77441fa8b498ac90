// Package loader finds the libraries that a program would load, from the files
// alone: it is glibc's search (elf/dl-load.c, elf/dl-deps.c, elf/dl-cache.c) with
// its comparison of symbol versions (elf/dl-version.c), and musl's
// (ldso/dynlink.c), without running anything.
//
// The constants of a build of glibc (the default directories, the path of
// ld.so.cache, the value of $LIB, the version) are read from the dynamic
// loader's own file, the one that PT_INTERP names. So a program from a Nix store
// is searched for by the rules of nixpkgs' patched glibc, one from Debian by
// Debian's.
//
// Everything is looked up below a root directory, so that the image of another
// machine can be examined, and each directory and file is read once in the life
// of a [Loader], however many programs it is asked about.
package loader
