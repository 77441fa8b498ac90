# addCudaCompatRunpath alone: the run path has compat and nothing behind it; the compat library needs nothing of the driver.
host_driver 535.161.08 0
compat cuda_compat/compat/libcuda.so.1 0 12.4 '[470,535]'
cuda_program p cuda_compat/compat/libcuda.so.1 -Wl,-rpath,'$ORIGIN/cuda_compat/compat'
start ./p
