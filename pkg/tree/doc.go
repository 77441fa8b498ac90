// Package tree walks files and directories. A caller gives [Walk] paths and a function that visits each file, which
// is open for reading with its first bytes read ([File.ELF], [File.ReadAt]). The function may put a new file in its
// place ([File.Replace]) or write to it ([File.Write]). Everything but the bytes written stays as it was.
//
// It is made for trees in which most files are of no interest. A file costs three system calls (openat, pread,
// close), an ELF file one more (fstat), and only a file that is written to is opened twice. File descriptors are
// plain integers, because an os.File would be registered with the runtime's poller.
package tree
