# compat/libcuda.so.1 is a link to a version that is not there: passed over without a word.
host_driver 535.161.08 0
mkdir -p cuda_compat/compat && ln -s libcuda.so.550.54.14 cuda_compat/compat/libcuda.so.1
cuda_program p /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,'$ORIGIN/cuda_compat/compat:/run/opengl-driver/lib'
start ./p
