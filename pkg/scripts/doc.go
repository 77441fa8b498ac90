// Package scripts finds the places where a script opens a library of the GPU
// driver by name, as in ctypes.CDLL("libnvidia-ml.so.1"). The library that then
// calls dlopen is the interpreter's, so no run path of the package is searched:
// only the path of the driver link in the script itself helps.
//
// It reads text and returns places and edits; it opens no files.
package scripts
