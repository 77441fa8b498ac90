# The library is there and lacks the version that the program was linked against: the start ends.
versioned 'V1 { f_v; };' library old/libv.so.1 libv.so.1
with 'int f_w(void) { return 0; }' versioned 'V1 { f_v; }; V2 { f_w; } V1;' library new/libv.so.1 libv.so.1
with 'int f_w(void); int run(void) { return f_w(); }' program p new/libv.so.1 '-Wl,-rpath,$ORIGIN/old'
start ./p
