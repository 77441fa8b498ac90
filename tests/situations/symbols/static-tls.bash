# A plugin with more thread-local data of the initial-exec kind than the loader keeps room for cannot be opened.
with '__thread char big[65536] __attribute__((tls_model("initial-exec"))); int plugin(void) { return big[1]; }' library plug/libplug.so libplug.so
opener p libplug.so -- '-Wl,-rpath,$ORIGIN/plug'
start ./p
