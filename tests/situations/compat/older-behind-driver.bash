# The older compat package stands behind the driver link and harms nobody.
host_driver 580.95.05 0
compat cuda_compat/compat/libcuda.so.1 803 12.2 '[450,470,525]'
cuda_program p cuda_compat/compat/libcuda.so.1 -Wl,-rpath,'/run/opengl-driver/lib:$ORIGIN/cuda_compat/compat'
start ./p
