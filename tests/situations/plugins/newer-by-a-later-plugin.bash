# Two plugins, two copies: the first brings the older one, so the second, which needs the newer, cannot be opened; the first can.
versioned 'V1 { f_v; };' library old/libv.so.1 libv.so.1
with 'int f_w(void) { return 0; }' versioned 'V1 { f_v; }; V2 { f_w; } V1;' library new/libv.so.1 libv.so.1
with 'int f_v(void); int plugin(void) { return f_v(); }' library plug/liba.so liba.so old/libv.so.1 '-Wl,-rpath,$ORIGIN/../old'
with 'int f_w(void); int plugin(void) { return f_w(); }' library plug/libb.so libb.so new/libv.so.1 '-Wl,-rpath,$ORIGIN/../new'
opener p liba.so libb.so -- '-Wl,-rpath,$ORIGIN/plug'
start ./p
