/* The program: what it has itself, what its library says, what its plugin says. */
#include <dlfcn.h>
#include <stdio.h>
#include "unit.h"

int value(void);
extern int run_tail; /* copied into the program where it is linked without PIE */

int main(int argc, char **argv)
{
	report("program");
	printf("value %d, variable %d\n", value(), run_tail);
	if (argc > 1) {
		void *plugin = dlopen(argv[1], RTLD_NOW);
		int (*plugged)(void) = plugin ? (int (*)(void))dlsym(plugin, "plugged") : 0;
		if (!plugged) {
			printf("plugin: %s\n", dlerror());
			return 1;
		}
		printf("plugin %d\n", plugged());
		dlclose(plugin);
	}
	return 0;
}
