// Package elfedit edits an ELF image. A caller describes the file after the edit in a [Change]. [Plan] makes an
// [Edit] of it, a list of writes, which [Edit.Apply] carries out.
//
// An edit passes through stages, each in files of its name:
//
//	Change ──► goal: what differs from what the file says
//	             │
//	           layout_…: where everything is afterwards     quirks: what other tools
//	             │                                          leave and expect
//	           emit_…: the writes
//	             │
//	           verify_…: the image before, the image after
//	             │       and the change; it calls no planner, but
//	             │       both ask what a file is (image, quirks)
//	           Edit ──► Apply
//
// For example, a library with the run path /a gets /a/longer/one. Before and after:
//
//	0      ELF header, 7 program headers       ELF header, 8 program headers
//	0x1c8  .note  .gnu.hash  .dynsym           zeros     .gnu.hash .dynsym
//	0x300  .dynstr "…/a"                       zeros
//	0x1000 .text … .dynamic (STRTAB, RUNPATH)  … .dynamic
//	0x2000 .shstrtab, section headers          (as they were, dead)
//	0x3000                                     PT_LOAD: .note, .dynstr with room "/a/longer/one",
//	                                           .shstrtab, section headers
//
// Section headers, which the loader never reads, are kept consistent for the tools
// that do: strip, objcopy, readelf, gdb, patchelf.
//
// # Where new strings go
//
// The run path, the soname and the names of needed libraries are in the string table. They go to the cheapest place
// that there is:
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
//     program header is added. Without .bss it grows where it is, unless tables such
//     as .symtab would come to be in it. In Bun, whose "build --compile" lets that segment grow
//     over what follows it, this comes before 4.
//
// Each new segment begins with a section of zeros, "dynstr", and so does one that everything has moved out of. GNU
// strip and objcopy give a segment without a section an offset with which the file does not load, and a later edit,
// ours or patchelf's, may take everything else away.
//
// In a non-PIE program (ET_EXEC), a table that moves goes into a new segment at once, and the hole that it leaves
// gets such a section, too. patchelf before 0.19 would take the hole for its own room, and break the program.
//
// The program header table never moves, because GNU strip and objcopy write it back after the ELF header, and kernels
// before 5.18 compute AT_PHDR from e_phoff. If there is no spare dynamic entry, .dynamic moves, too, out of what
// PT_GNU_RELRO protects. A longer interpreter goes into a new segment.
//
// A resolution note (.note.nixos.ldcache) goes where one is or was, if it fits, else into a new
// segment, with a PT_NOTE, a section and room of its own: see layout_note.go.
//
// # What an edit writes
//
// The writes that make the file longer come first. If one of them fails, as on a full disk, the file gets its old
// length back. The order of the others guarantees nothing to a reader. By hand an edit is made in a new file, and a
// build in which it fails or is killed is thrown away. If a later write fails, the error is a [DamagedError].
//
// Bytes that nothing refers to afterwards become zeros, so that no store path of a removed entry stays. A copy of the
// string table omits them.
//
// Data that somebody appended to the file stays in place, and a copy of it ends the file, because readers look for it
// from either side. The copy keeps at most 1 MiB of leading zeros, so a sparse file of 5 GiB with four bytes at its
// end becomes 1 MiB longer.
//
// Every plan is applied in memory and read back before it reaches the file. Each byte that it changes is compared
// with its owners (elfimage.Image.Owners). A failure there is a bug of this package ([BugError]), and the file stays
// as it was.
package elfedit
