/* 300 MB of zeros that take no room in the file, and must not take any after an edit. */
#include "unit.h"

static char zeros[300 << 20];
int bss(void) { zeros[200 << 20] = 7; return zeros[200 << 20] + zeros[(300 << 20) - 1]; }
