# LD_LIBRARY_PATH names the driver, which people are told to do; the stubs stand in a DT_RPATH, which is searched before.
host
stub lib64/stubs/libcuda.so.1
cuda_program p lib64/stubs/libcuda.so.1 -Wl,--disable-new-dtags,-rpath,'$ORIGIN/lib64/stubs'
LD_LIBRARY_PATH=/run/opengl-driver/lib start ./p
