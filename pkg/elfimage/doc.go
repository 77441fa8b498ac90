// Package elfimage reads an ELF image. A caller gives [Parse] a reader and a size, asks the [Image] ([Image.RunPath],
// [Image.Needed], [Image.Prog] …), and releases it ([Image.Release]).
//
// It sees a file as the dynamic loader does: the ELF header, the program headers by
// e_phoff, and what PT_DYNAMIC points to. Nothing here opens a file, walks a
// directory or writes: [Parse] takes an [io.ReaderAt]. Package elfedit edits.
package elfimage
