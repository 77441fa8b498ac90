# The run path says "lib", which is a link to the stubs of a toolkit: no component of the entry is called stubs.
host
stub cuda/lib64/stubs/libcuda.so.1
ln -s cuda/lib64/stubs lib
cuda_program p lib/libcuda.so.1 -Wl,-rpath,'$ORIGIN/lib:/run/opengl-driver/lib'
start ./p
