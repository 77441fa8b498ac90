/* Prints the CUDA version that the driver supports. */
#include <stdio.h>
#include <string.h>

extern int cuInit(unsigned flags);
extern int cuDriverGetVersion(int *version);

int main(int argc, char **argv) {
	int status, version = 0;

	if (argc > 1 && strcmp(argv[1], "--help") == 0) {
		puts("driver-version: prints the CUDA version that the GPU driver supports");
		return 0;
	}
	status = cuInit(0);
	if (status == 0)
		status = cuDriverGetVersion(&version);
	if (status != 0) {
		fprintf(stderr, "driver-version: CUDA error %d%s\n", status,
			status == 34 ? " (this is the toolkit's stub, not the driver)" : "");
		return 1;
	}
	printf("%d.%d\n", version / 1000, version % 1000 / 10);
	return 0;
}
