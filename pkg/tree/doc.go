// Package tree walks files and directories. A caller gives [Walk] paths and a function that visits each file, open for
// reading with its first bytes read ([File.ELF], [File.ReadAt]), and puts a new file in its place ([File.Replace]) or writes
// to it ([File.Write]): everything but the bytes written stays as it was.
//
// It is made for trees in which most files are of no interest: a file costs three
// system calls (openat, pread, close), an ELF file one more (fstat), and only a
// file that is written to is opened a second time. File descriptors are plain
// integers, because an os.File would be registered with the runtime's poller.
package tree
