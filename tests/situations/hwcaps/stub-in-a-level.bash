# The run path's directory has the driver, its x86-64-v2 directory the stub: the entry looks right and is not.
driver lib/libcuda.so.1 0
stub lib/glibc-hwcaps/x86-64-v2/libcuda.so.1
cuda_program p lib/libcuda.so.1 -Wl,-rpath,'$ORIGIN/lib'
start ./p
