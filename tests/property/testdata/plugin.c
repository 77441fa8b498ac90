#include "unit.h"

int value(void);
int plugged(void) { report("plugin"); return value() + 1; }
