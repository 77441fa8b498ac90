# The program has the driver link; a library with the stubs in its own run path calls dlopen: the caller's list is searched.
host
stub lib/stubs/libcuda.so.1
opening libgpu.so.1 libgpu.so.1 libcuda.so.1 -- -Wl,-rpath,'$ORIGIN/lib/stubs:/run/opengl-driver/lib'
opener p --entry cuInit libcuda.so.1 -- libgpu.so.1 -Wl,--enable-new-dtags,-rpath,'$ORIGIN:/run/opengl-driver/lib'
start ./p
