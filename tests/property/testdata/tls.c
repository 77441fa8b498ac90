/* Thread-local data, with and without a starting value. */
#include "unit.h"

static __thread int start = 11;
static __thread volatile char room[3000];
int tls(void) { room[2999]++; return ++start + room[2999]; }
