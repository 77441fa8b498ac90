# The note leads to a private libcuda past the driver link, which stands first in the run path.
host
driver other/libcuda.so.1 3
cuda_program p other/libcuda.so.1 "$(note libcuda.so.1 "=$PWD/other/libcuda.so.1")" -Wl,-rpath,"/run/opengl-driver/lib:$PWD/other"
start ./p
