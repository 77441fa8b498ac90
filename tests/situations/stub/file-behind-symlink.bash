# An ordinary library directory holds libcuda.so.1 as a link to the toolkit's stub, as some Docker images make it for linking.
host
stub cuda/lib64/stubs/libcuda.so
mkdir lib && ln -s ../cuda/lib64/stubs/libcuda.so lib/libcuda.so.1
cuda_program p lib/libcuda.so.1 -Wl,-rpath,'$ORIGIN/lib:/run/opengl-driver/lib'
start ./p
