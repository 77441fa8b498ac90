// Package elfedit edits an ELF image. A caller says in a [Change] what the file is to say
// afterwards, lets [Plan] make an [Edit] of it, a list of writes in an order that leaves
// the image loadable after each of them, and carries that out with [Edit.Apply].
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
//	             │       and the change; it calls no planner, but
//	             │       both ask what a file is (image, quirks)
//	           Edit ──► Apply
//
// What an edit that is killed has left is in record, and finish makes the edit that finishes it.
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
// segment, with a PT_NOTE, a section and room of its own. layout_note.go explains why the loader
// never sees an old note with a new run path, or the reverse.
//
// # What an edit writes, in order
//
// An edit that is one write inside a page is that write. Any other one raises a flag with the first
// byte that a reader can see, and takes it down with the last: [elfimage.Image.Stopped]. The flag is a bit of
// p_flags in a PT_LOAD, one that the gABI leaves to operating systems (PF_MASKOS). Every reader of
// a file has read the program headers, so telling costs no read; no loader looks at the bit, and
// strip, llvm-strip, objcopy and patchelf keep it.
//
// Where the edit makes room, that is a segment that is new or grows, the flag stands in that
// segment's header. Until the end the segment goes on for some hundred bytes, and there the record
// of the edit is. Then
//
//	1  what nothing refers to yet, the record at its end     the file as it was; taken back if a write fails
//	2  the ELF header and the program headers, with the flag
//	3  a section over what is new                            strip keeps what has a section
//	4  what is in use and switches by itself: the interpreter's path, a note's type and, page by page, text
//	5  .dynamic                                              the old file before, the new one from here on
//	6  headers that only now may forget what .dynamic referred to
//	7  the new note's type, symbols
//	8  zeros over what is dead, so that no store path of a removed entry stays
//	9  zeros over the record
//	10 the segment's header, without the flag and the room of the record
//
// Where a resolution note has to be silent before 2, the flag goes up by itself after 1, and then the note is silenced.
//
// Each of 2, 3, 5, 6 is one write in one page (a program header table that crosses a page, as one
// of more than 72 headers does, can be torn by a kill). From 2 on, those that follow each other in
// one page are one: in a small file 8 and what comes before it, for example. For 3, where the segment grows over
// padding, its last section is as large for the time: of a type that no tool reads entry by entry.
// A strip before 3 drops the padding, and no harm is done. Where the segment is new, section
// headers for the time are those of before and one more, over all of it. They begin what is
// appended, and stay there, dead: for the one more 64 bytes where the section headers ended the
// file. 6 gives .dynstr and what else moved its section header, and the program header table its
// growth, where it grows over what .dynamic referred to: till then a program header that the loader
// can do without for the moment is lent to the new segment (lendable). Where none can be lent,
// .dynamic moves, and all switches with 2. Where a segment grows at the end of the file and what
// moves had other places, sections over these are at the end of the file until 6, and cut off.
//
// An edit in its own room, or in place, raises the flag of the string table's segment, and leaves
// no record: what it leaves behind can be told without one (see below).
//
// # What a record says
//
// Where it is itself and how large the file was; sums of .dynamic before its switch and after;
// which segment is new, or how much it mapped; the program headers before and after, where 2 does
// not leave those of after (the others by their index among those in force); the size of the
// section that is larger for the time; what moved, from where to where; what is dead, with a sum of
// it; the notes that were silenced and are to count, with a sum of what they say; where the section
// headers are, before and after. Places are addresses, for strip moves offsets. It has a sum of
// itself.
//
// # What each reader sees
//
// The loader: the old file until 5, the new one from there on. strip and the like: what .dynamic
// refers to, and the record, in sections. audit and show: nothing until 2; then that an edit was
// interrupted, or, while somebody has the file's lock, that it is being edited.
//
// The next edit, of any kind, reads the end of the flagged segment, finishes what it finds, reads
// back what that leaves, and begins there ([Finish]; [Plan] does it by itself). Is .dynamic the one
// of before, the file becomes what it was: headers back, what is new cut off or zeroed, the note
// that was silenced counts. Is it the one of afterwards, 6 to 10 are done, as far as they are not.
// Where strip has moved things, places follow from addresses, and section headers are written anew.
//
// A record is a claim. It counts where it is at the place that it names, .dynamic is one of its
// two, and the file that it asks for passes the check that every edit does, with the headers that
// it names for those of before; what it has for dead may be no byte that anything owns or names,
// and is still what its sum says. A program header that it brings back has to be mapped, and
// nothing may refer to a segment that it takes away. One that does not fit is not followed: the
// flag goes, and the edit says so ([Edit.Dropped]).
//
// A record without a flag, in the padding where it says that it is: the edit was killed before 2, and
// what it left there is written over by the next one that takes that place.
//
// A flag without a record: strings of the dynamic string table that no entry, symbol or version
// names are what was to go, and so are sections of a resolution note that no PT_NOTE names. A note
// that was silenced then counts for nothing: who keeps notes right makes it anew, else it goes.
//
// Not done. What is appended before 2 stays at the end of the file, as what somebody else appended does.
// .dynamic in a file whose last segment gets a copy at the end while .dynamic is elsewhere is switched by
// itself, and a kill before that leaves the copy in force; the flag goes, the rest stays. Versions that
// are cleared are many writes; the same edit again clears the rest.
//
// # Several parts at once
//
// All that .dynamic says switches at once. The interpreter, the flags of the stack and the OS ABI
// stand in the headers and switch before, so an edit of both has a state between: the new
// interpreter with the old libraries. It starts where either loader starts the file with either
// list, as two copies of one C library's do (tests/faults kills edits of several parts at every
// write). One switch would take .dynamic out of RELRO, for good, and is made only where .dynamic
// moves anyway.
//
// Data that somebody appended to the file stays where it is, and a copy ends the file,
// for it can be looked for from either side. Of zeros that it begins with, the copy has
// 1 MiB at most: a sparse file of 5 GiB with four bytes at its end becomes 1 MiB longer.
//
// Every plan is applied in memory and read back before it reaches the file, and each
// byte that it changes is compared with who owned it (elfimage.Image.Owners). What
// fails there is a fault of this package ([BugError]), and the file stays as it was.
package elfedit
