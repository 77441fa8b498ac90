# The stub had no soname when it was linked, so DT_NEEDED holds its path: no run path has a say.
host
driver lib/stubs/libcuda.so 34 -Wl,-soname,lib/stubs/libcuda.so
cuda_program p lib/stubs/libcuda.so -Wl,-rpath,/run/opengl-driver/lib
start ./p
