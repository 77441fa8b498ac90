# The stub directory stands behind the driver link, which has the driver: ugly, and it works on this host.
host
stub lib/stubs/libcuda.so.1
cuda_program p lib/stubs/libcuda.so.1 -Wl,-rpath,'/run/opengl-driver/lib:$ORIGIN/lib/stubs'
start ./p
