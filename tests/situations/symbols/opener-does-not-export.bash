# The program has the function and does not export it: the plugin cannot be opened.
with 'int offered(void); int plugin(void) { return offered(); }' library plug/libplug.so libplug.so
with 'static int offered(void) { return 0; } int run(void) { return offered(); }' opener p libplug.so -- '-Wl,-rpath,$ORIGIN/plug'
start ./p
