# The driver hook ran last and put the driver link in front: compat is of no use, and the driver too old for the program (35).
host_driver 535.161.08 35
compat cuda_compat/compat/libcuda.so.1 0 12.4 '[470,535]'
cuda_program p cuda_compat/compat/libcuda.so.1 -Wl,-rpath,'/run/opengl-driver/lib:$ORIGIN/cuda_compat/compat'
start ./p
