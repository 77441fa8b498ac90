/* A library that defines nothing for others: its .gnu.hash is empty, and says nothing of how many symbols there are. */
#include <stdio.h>
__attribute__((constructor)) static void begin(void) { printf("loaded\n"), fflush(stdout); }
