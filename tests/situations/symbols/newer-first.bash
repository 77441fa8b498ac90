# The same the other way round: it works, and is ambiguous; what is said to be taken out must not be the newer one.
versioned 'V1 { f_v; };' library old/libv.so.1 libv.so.1
with 'int f_w(void) { return 0; }' versioned 'V1 { f_v; }; V2 { f_w; } V1;' library new/libv.so.1 libv.so.1
with 'int f_w(void); int run(void) { return f_w(); }' program p new/libv.so.1 "-Wl,-rpath,$PWD/new:$PWD/old"
start ./p
