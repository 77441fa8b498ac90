# A plugin's run path has the stubs only; the program has the driver already, whose soname answers the plugin's need.
host
stub lib/stubs/libcuda.so.1
library plug.so '' lib/stubs/libcuda.so.1 -Wl,-rpath,'$ORIGIN/lib/stubs'
opener p --entry cuInit ./plug.so -- /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
start ./p
