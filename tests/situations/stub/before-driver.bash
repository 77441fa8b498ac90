# The stub directory stands before the driver link in the run path: the best known of all mistakes.
host
stub lib/stubs/libcuda.so.1
cuda_program p lib/stubs/libcuda.so.1 -Wl,-rpath,'$ORIGIN/lib/stubs:/run/opengl-driver/lib'
start ./p
