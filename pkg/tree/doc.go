// Package tree walks files and directories and hands out ELF files, open for
// reading with their first bytes read, and writes to them so that everything but
// the bytes written stays as it was.
//
// It is made for trees in which most files are of no interest: a file costs three
// system calls (openat, pread, close), an ELF file one more (fstat), and only a
// file that is written to is opened a second time. File descriptors are plain
// integers, because an os.File would be registered with the runtime's poller.
package tree
