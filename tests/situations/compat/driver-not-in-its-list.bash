# Newer than the driver, but the note's list lacks this driver's branch (545, no production branch): 803 again.
host_driver 545.23.08 0
compat cuda_compat/compat/libcuda.so.1 803 12.4 '[450,470,525,535]'
cuda_program p cuda_compat/compat/libcuda.so.1 -Wl,-rpath,'$ORIGIN/cuda_compat/compat:/run/opengl-driver/lib'
start ./p
