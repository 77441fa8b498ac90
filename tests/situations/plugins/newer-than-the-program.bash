# The plugin needs a version that the program's older copy lacks; its own run path has the newer one, which is not looked at.
versioned 'V1 { f_v; };' library old/libv.so.1 libv.so.1
with 'int f_w(void) { return 0; }' versioned 'V1 { f_v; }; V2 { f_w; } V1;' library new/libv.so.1 libv.so.1
with 'int f_w(void); int plugin(void) { return f_w(); }' library plug/libplug.so libplug.so new/libv.so.1 '-Wl,-rpath,$ORIGIN/../new'
opener p libplug.so -- old/libv.so.1 '-Wl,-rpath,$ORIGIN/old:$ORIGIN/plug'
start ./p
