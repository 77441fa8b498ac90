# The plugin takes a function from the program that opens it, which exports it.
with 'int offered(void); int plugin(void) { return offered(); }' library plug/libplug.so libplug.so
with 'int offered(void) { return 0; } int run(void) { return 0; }' opener p libplug.so -- -rdynamic '-Wl,-rpath,$ORIGIN/plug'
start ./p
