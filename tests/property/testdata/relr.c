/* Enough relative relocations that DT_RELR is worth it. */
#include "unit.h"

static int one = 1, two = 2;
#define P &one, &two, &one, &two, &one, &two, &one, &two
static int *table[] = {P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P};
int relr(void)
{
	int sum = 0;
	for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
		sum += **(int *volatile *)&table[i];
	return sum;
}
