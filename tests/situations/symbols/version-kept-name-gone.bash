# The library defines the version still, and the function in it no longer.
with 'int f_w(void) { return 0; }' versioned 'V1 { f_v; f_w; };' library new/libv.so.1 libv.so.1
versioned 'V1 { f_v; };' library old/libv.so.1 libv.so.1
with 'int f_w(void); int run(void) { return f_w(); }' program p new/libv.so.1 -Wl,-z,now '-Wl,-rpath,$ORIGIN/old'
start ./p
