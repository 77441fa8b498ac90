/* A program that uses what an edit could damage: relocated data, TLS, versioned and exported symbols, constructors. */
#include <stdio.h>
#include <string.h>
__thread int local = 3;
int exported = 5;
#ifdef ROUND /* the alignment of a variable, in bytes */
_Alignas(ROUND) int aligned = 1;
#else
#define ROUND 1
int aligned = 1;
#endif
static int *volatile alignment = &aligned; /* volatile: the compiler believes in what it asked for */
static int *pointer = &exported;
static const char *const names[] = {"one", "two", "three"};
static int started;
__attribute__((constructor)) static void begin(void) { started = 7; }
int value(void) { return started + *pointer + local; }
#ifdef PROGRAM
int main(int argc, char **argv) {
  (void)argv;
  printf("%d %s %zu %d\n", value(), names[argc % 3], strlen(names[2]), (int)((unsigned long)alignment % ROUND));
  return 0;
}
#endif
