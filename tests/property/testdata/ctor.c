/* Constructors in order of priority, and a destructor that is seen to run. */
#include <stdio.h>
#include "unit.h"

static int order;
__attribute__((constructor(101))) static void first(void) { order = order * 10 + 1; }
__attribute__((constructor(102))) static void second(void) { order = order * 10 + 2; }
__attribute__((constructor)) static void third(void) { order = order * 10 + 3; }
__attribute__((destructor)) static void last(void) { printf("destructor %d\n", order); }
int ctor(void) { return order; }
