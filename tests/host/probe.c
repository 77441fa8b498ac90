// probe OUT SECONDS PATH...: says from inside a build which paths are there. Linked statically: a sandbox has no libraries.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv) {
	FILE *out = argc > 3 ? fopen(argv[1], "w") : NULL;
	if (!out)
		return 1;
	for (int i = 3; i < argc; i++) {
		const char *p = argv[i];
		struct stat st;
		DIR *d;
		if (stat(p, &st)) {
			fprintf(out, "%s absent\n", p);
			continue;
		}
		if (!S_ISDIR(st.st_mode)) {
			fprintf(out, "%s %ld\n", p, (long)st.st_size);
			continue;
		}
		fprintf(out, "%s directory", p);
		if ((d = opendir(p))) {
			for (struct dirent *e; (e = readdir(d));)
				if (e->d_name[0] != '.')
					fprintf(out, " %s", e->d_name);
			closedir(d);
		}
		fprintf(out, "\n");
	}
	sleep(atoi(argv[2]));
	return fclose(out);
}
