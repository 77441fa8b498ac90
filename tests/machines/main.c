// Prints what only a program that was loaded, relocated and initialized rightly prints.
#include <stdio.h>
#include <string.h>

extern int answer(int);
extern const char *where(void);
extern __thread int counter;

static int ready;
__attribute__((constructor)) static void prepare(void) { ready = 1; }
static int zeros[5000];
static int values[] = {1, 2, 3};
int *pointer = &values[1];

int main(int argc, char **argv)
{
    counter += 5;
    zeros[4999] = argc;
    printf("%s %d %d %d %d %d\n", where(), answer(20), counter, ready, *pointer, zeros[4999] + zeros[17]);
    return strcmp(argv[0], "") == 0;
}
