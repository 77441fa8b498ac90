# The same plugin is opened first, libcuda.so.1 by name afterwards: now the stub answers for the driver.
host
stub lib/stubs/libcuda.so.1
library plug.so '' lib/stubs/libcuda.so.1 -Wl,-rpath,'$ORIGIN/lib/stubs'
opener p --entry cuInit ./plug.so libcuda.so.1 -- -Wl,-rpath,/run/opengl-driver/lib
start ./p
