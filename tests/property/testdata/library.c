/* The library. run_tail is the tail of a run path that the images may be linked with: bfd lets both share their bytes in
   the string table, so writing over the old run path renames the symbol. */
#include "unit.h"

int run_tail = 20;
#ifdef VERSIONS
__asm__(".symver value_1,value@LIBVALUE_1\n.symver value_2,value@@LIBVALUE_2");
int value_1(void) { return 1; }
int value_2(void) { report("library"); return 42; }
#else
int value(void) { report("library"); return 42; }
#endif
