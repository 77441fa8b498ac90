# The stubs stand alone in a DT_RUNPATH; LD_LIBRARY_PATH with the driver link is searched before, and the program is right.
host
stub lib64/stubs/libcuda.so.1
cuda_program p lib64/stubs/libcuda.so.1 -Wl,--enable-new-dtags,-rpath,'$ORIGIN/lib64/stubs'
LD_LIBRARY_PATH=/run/opengl-driver/lib start ./p
