# The stub was hard-linked into an ordinary library directory under the driver's name: no link to follow tells where it comes from.
host
stub cuda/lib64/stubs/libcuda.so
mkdir lib && ln cuda/lib64/stubs/libcuda.so lib/libcuda.so.1
cuda_program p lib/libcuda.so.1 -Wl,-rpath,'$ORIGIN/lib:/run/opengl-driver/lib'
start ./p
