# The plugin that brings the stub lacks another library: its open fails and takes the stub with it; the driver comes next.
host
stub lib/stubs/libcuda.so.1
library gone/libgone.so.1 libgone.so.1
library plug.so '' lib/stubs/libcuda.so.1 gone/libgone.so.1 -Wl,-rpath,'$ORIGIN/lib/stubs'
rm gone/libgone.so.1
opener p --entry cuInit ./plug.so libcuda.so.1 -- -Wl,-rpath,/run/opengl-driver/lib
start ./p
