# The wrapper's directory holds an older copy, which lacks a version that the program needs; its own run path has the right one.
versioned 'V1 { f_v; };' library old/libv.so.1 libv.so.1
with 'int f_w(void) { return 0; }' versioned 'V1 { f_v; }; V2 { f_w; } V1;' library new/libv.so.1 libv.so.1
with 'int f_w(void); int run(void) { return f_w(); }' program p.bin new/libv.so.1 '-Wl,-rpath,$ORIGIN/new'
wrapper bin/p "$PWD/p.bin" --prefix LD_LIBRARY_PATH : "$PWD/old"
start bin/p
