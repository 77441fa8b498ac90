// Package elfedit edits an ELF image: a [Change] says what the file is to say
// afterwards, [Plan] makes of it an [Edit], a list of writes in an order that leaves
// the image loadable after each of them.
//
// An edit passes through rooms, and each has files of its name:
//
//	Change ──► goal: what differs from what the file says
//	             │
//	           layout_…: where everything is afterwards     quirks: what other tools
//	             │                                          leave and expect
//	           emit_…: writes, in an order that leaves
//	             │     the file loadable after each
//	           verify_…: the image before, the image after
//	             │       and the change; it asks no planner
//	           Edit ──► Apply
//
// For example, a library with the run path /a gets /a/longer/one. Before and after:
//
//	0      ELF header, 7 program headers       ELF header, 8 program headers   one write
//	0x1c8  .note  .gnu.hash  .dynsym           zeros     .gnu.hash .dynsym
//	0x300  .dynstr "…/a"                       zeros
//	0x1000 .text … .dynamic (STRTAB, RUNPATH)  … .dynamic                      one write
//	0x2000 .shstrtab, section headers          (as they were, dead)
//	0x3000                                     PT_LOAD: .note, .dynstr with room "/a/longer/one",
//	                                           .shstrtab, section headers      first of all
//
// Section headers, which the loader never reads, are kept consistent for the tools
// that do: strip, objcopy, readelf, gdb, patchelf.
//
// # Where new strings go
//
// Run path, soname and names of needed libraries stand in the string table. They go to
// the cheapest place that there is:
//
//  0. where the replaced string is, if the new one is not longer, shares no
//     byte with another and no entry of .dynamic changes;
//  1. the room that an earlier edit left in the string table: one string and one
//     dynamic entry change;
//  2. zeros between the end of a segment and the next page, with a copy of the string
//     table: the file does not grow;
//  3. at the end of the file, where the string table ends the segment that is last in
//     memory, as an earlier edit leaves it: table and segment grow over the little that
//     stands between;
//  4. a new PT_LOAD at the end of the file with a copy of the string table. The
//     program header table grows where it is, and the small sections after it
//     (notes, .interp, .hash, .gnu.hash, .dynsym) move along into the new segment.
//     Where code comes after the table, a program header that says nothing new
//     gives up its place;
//  5. where there is none, or notes would have to move whose place may count, the end
//     of the segment that is last in memory. That gets another place in the file, where
//     it can grow: its addresses stay, its .bss becomes zeros of the file, and no
//     program header is added. The ELF header and .dynamic, where that is in the
//     segment, switch in one write. Without .bss it grows where it is, unless tables such
//     as .symtab would come to be in it. In Bun, whose "build --compile" lets that segment grow
//     over what follows it, this comes before 4.
//
// Each new segment begins with a section of zeros, "dynstr", and so does one that all has moved out of: GNU strip and
// objcopy give a segment without a section an offset with which the file does not load, and a later edit, ours or
// patchelf's, may take away all else.
//
// In a program that is not PIE (ET_EXEC) a table that moves goes into a new segment
// at once, and the hole that it leaves gets such a section, too: patchelf before
// 0.19 would take the hole for room that it has, and break the program.
//
// The table is never moved: GNU strip and objcopy write it back after the ELF
// header, and kernels before 5.18 compute AT_PHDR from e_phoff. Where there is no spare
// dynamic entry, .dynamic moves too, out of what PT_GNU_RELRO protects.
// A longer interpreter goes into a new segment, and so does the table of needed
// versions when a library in it gets another name: it is switched with DT_NEEDED.
//
// A resolution note (.note.nixos.ldcache) goes where one is or was, if it fits, else into a new
// segment, with a PT_NOTE, a section and room of its own. See layout_note.go for why nothing is loaded
// by an old note and a new run path, or the other way round, at any moment.
//
// # What an edit writes, in order
//
// First what nothing refers to yet, section headers among it; then the ELF header
// and the program headers, one write in one page (a table that crosses a page, as one of
// more than 72 headers does, can be torn by a kill); then .dynamic, one write; where
// what changes in it is not in one page, it has moved; then symbols; last, zeros over what is dead,
// so that no store path of a removed entry stays in the file. If something fails
// before the headers change, what was written is taken back.
//
// Between the headers and .dynamic, section headers at the end of the file name the old
// places of what moves beside the new ones, so that strip leaves both: a file that an edit
// was stopped in can be stripped, and edited again (TestEditsThatStop, for every write).
// The next edit begins with the section headers where .dynamic says that the tables are.
//
// All that .dynamic says switches at once. The interpreter, the flags of the stack and
// the OS ABI stand in the headers and switch one write before, so an edit of both has a
// state between: the new interpreter with the old libraries. It starts where either
// loader starts the file with either list, as two copies of one C library's do
// (tests/faults kills edits of several parts at every write). One switch would take
// .dynamic out of RELRO, for good, and is made only where .dynamic moves anyway.
//
// Data that somebody appended to the file stays where it is, and a copy ends the file,
// for it can be looked for from either side. Of zeros that it begins with, the copy has
// 1 MiB at most: a sparse file of 5 GiB with four bytes at its end becomes 1 MiB longer.
//
// Every plan is applied in memory and read back before it reaches the file, and each
// byte that it changes is compared with who owned it (elfimage.Image.Owners). What
// fails there is a fault of this package ([BugError]), and the file stays as it was.
package elfedit
