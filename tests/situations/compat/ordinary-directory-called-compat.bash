# A directory called compat without a libcuda.so.1: other libraries (an older API) live there and must stay reachable.
host_driver 535.161.08 0
library app/compat/libold.so.1 libold.so.1
cuda_program p app/compat/libold.so.1 /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,'/run/opengl-driver/lib:$ORIGIN/app/compat'
start ./p
