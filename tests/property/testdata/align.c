/* Data and text that want more alignment than a page. */
#include <stdint.h>
#include "unit.h"

static char wide[100] __attribute__((aligned(65536))) = {1};
int align(void) { return wide[0] + (int)((uintptr_t)wide % 65536); }
