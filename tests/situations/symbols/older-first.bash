# The first directory's copy lacks a version, the second's has it: taking the second directory out would leave nothing that works.
versioned 'V1 { f_v; };' library old/libv.so.1 libv.so.1
with 'int f_w(void) { return 0; }' versioned 'V1 { f_v; }; V2 { f_w; } V1;' library new/libv.so.1 libv.so.1
with 'int f_w(void); int run(void) { return f_w(); }' program p new/libv.so.1 "-Wl,-rpath,$PWD/old:$PWD/new"
start ./p
