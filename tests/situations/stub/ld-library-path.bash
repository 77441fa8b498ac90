# The run path is right; a user's LD_LIBRARY_PATH, left over from building, names the stubs and wins over DT_RUNPATH.
host
stub lib64/stubs/libcuda.so.1
cuda_program p lib64/stubs/libcuda.so.1 -Wl,--enable-new-dtags,-rpath,/run/opengl-driver/lib
LD_LIBRARY_PATH="$PWD/lib64/stubs" start ./p
