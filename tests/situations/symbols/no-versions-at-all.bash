# A library without DT_VERSYM and without any version: glibc aborts where a version of it is needed ("Inconsistency detected").
versioned 'V1 { f_v; };' library versioned/libv.so.1 libv.so.1
library plain/libv.so.1 libv.so.1 -nostdlib
with 'int f_v(void); int run(void) { return f_v(); }' program p versioned/libv.so.1 '-Wl,-rpath,$ORIGIN/plain'
start ./p
