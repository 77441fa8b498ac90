# The preloaded copy lacks a version that the program needs, which the copy in its run path has.
versioned 'V1 { f_v; };' library old/libv.so.1 libv.so.1
with 'int f_w(void) { return 0; }' versioned 'V1 { f_v; }; V2 { f_w; } V1;' library new/libv.so.1 libv.so.1
with 'int f_w(void); int run(void) { return f_w(); }' program p new/libv.so.1 '-Wl,-rpath,$ORIGIN/new'
LD_PRELOAD=$PWD/old/libv.so.1 start ./p
