// Package loader finds the libraries that a program would load, from the files alone and without running anything. It
// does glibc's search (elf/dl-load.c, elf/dl-deps.c, elf/dl-cache.c) and comparison of symbol versions
// (elf/dl-version.c), and musl's search (ldso/dynlink.c).
//
// The constants of a build of glibc are read from the dynamic loader's own file, which PT_INTERP names: the default
// directories, the path of ld.so.cache, the value of $LIB, and the version. So a program from a Nix store is examined
// by the rules of nixpkgs' patched glibc, and one from Debian by Debian's.
//
// Everything is looked up below a root directory, so the image of another machine can be examined. A [Loader] reads
// each directory and file once, for however many programs.
package loader
