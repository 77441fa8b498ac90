// Package host makes a Linux host's GPU driver usable by programs that look for it
// in the driver link, /run/opengl-driver/lib: it finds the driver's libraries,
// offers exactly them in a directory (links for the system, a private cache for
// one user), starts a program with that directory in place, and says what is wrong
// where a CUDA program cannot work.
//
// Everything is read below a root, so another system's tree can be looked at, and
// nothing found is run or loaded.
package host
