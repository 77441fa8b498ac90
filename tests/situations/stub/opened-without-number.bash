# numba's list of names: libcuda.so first, then libcuda.so.1. The driver has the second name only, the stubs the first.
host
stub lib/stubs/libcuda.so
opener p --entry cuInit libcuda.so libcuda.so.1 -- -Wl,-rpath,'/run/opengl-driver/lib:$ORIGIN/lib/stubs'
start ./p
