# A library that needs versions and defines none (it has DT_VERSYM): a message, and the process goes on.
versioned 'V1 { f_v; };' library versioned/libv.so.1 libv.so.1
with '#include <stdlib.h>
int own(void) { return abs(-1); } void *keep = (void *)malloc;' library plain/libv.so.1 libv.so.1
with 'int f_v(void); int run(void) { return f_v(); }' program p versioned/libv.so.1 '-Wl,-rpath,$ORIGIN/plain'
start ./p
