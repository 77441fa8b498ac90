/* A function that is chosen when the image is relocated. */
#include "unit.h"

static int chosen(void) { return 5; }
static int (*resolve(void))(void) { return chosen; }
static int indirect(void) __attribute__((ifunc("resolve")));
static int (*const volatile pointer)(void) = indirect;
int ifunc(void) { return indirect() + pointer(); }
