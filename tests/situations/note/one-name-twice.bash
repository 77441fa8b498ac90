# The note has one name twice, first the driver link, then the stubs; the run path has them the other way round.
host
stub lib/stubs/libcuda.so.1
cuda_program p lib/stubs/libcuda.so.1 "$(note libcuda.so.1 '?/run/opengl-driver/lib' libcuda.so.1 "?$PWD/lib/stubs")" -Wl,-rpath,"$PWD/lib/stubs:/run/opengl-driver/lib"
start ./p
