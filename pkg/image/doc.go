// Package image reads and edits the run path of an ELF image.
//
// It sees a file as the dynamic loader does: the ELF header, the program
// headers by e_phoff, and what PT_DYNAMIC points to. Section headers, which the
// loader never reads, are kept consistent for the tools that do: strip, objcopy,
// readelf, gdb, patchelf.
//
// Nothing here opens a file or walks a directory: [Parse] takes an [io.ReaderAt],
// and an edit is a list of writes in an order that leaves the image loadable
// after each of them.
package image
