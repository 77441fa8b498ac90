/* Sections in places and of kinds that compilers do not make: in front of the text, notes of an unknown owner with both
   alignments, zeros inside the data, merged strings, an aligned read-only table. */
#include "unit.h"

__asm__(
	".pushsection .aaa_first,\"a\",@progbits\n.globl odd_first\n.hidden odd_first\n.p2align 6\nodd_first: .long 3\n.popsection\n"
	".pushsection .note.odd4,\"a\",@note\n.p2align 2\n.long 4,4,0x51\n.asciz \"ODD\"\n.long 6\n.popsection\n"
	".pushsection .note.odd8,\"a\",@note\n.p2align 3\n.long 4,8,0x52\n.asciz \"ODD\"\n.quad 7\n.popsection\n"
	".pushsection .zeros,\"aw\",@nobits\n.globl odd_zeros\n.hidden odd_zeros\n.p2align 4\nodd_zeros: .skip 5000\n.popsection\n"
	".pushsection .strings,\"aMS\",@progbits,1\n.globl odd_string\n.hidden odd_string\nodd_string: .asciz \"odd\"\n.popsection\n"
	".pushsection .table,\"a\",@progbits\n.globl odd_table\n.hidden odd_table\n.p2align 12\nodd_table: .long 9\n.popsection\n");
extern HIDDEN int odd_first, odd_zeros[], odd_table;
extern HIDDEN char odd_string[];
int odd(void) { return odd_first + odd_zeros[1000] + odd_string[1] + odd_table; }
