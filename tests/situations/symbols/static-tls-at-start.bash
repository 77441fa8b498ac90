# The same library needed by the program: at the start there is room.
with '__thread char big[65536] __attribute__((tls_model("initial-exec"))); int plugin(void) { return big[1]; }' library plug/libplug.so libplug.so
program p plug/libplug.so '-Wl,-rpath,$ORIGIN/plug'
start ./p
