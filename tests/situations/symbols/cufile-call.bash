# cuFileRead begins as the driver's functions do, and is libcufile's: adding libcuda.so.1 would not help.
host
with 'int cuFileRead(void); int plugin(void) { return cuFileRead(); }' library plug/libf.so libf.so /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
opener p libf.so -- '-Wl,-rpath,$ORIGIN/plug'
start ./p
