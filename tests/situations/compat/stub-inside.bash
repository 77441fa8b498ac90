# Somebody took the stub for compat's library: compat/libcuda.so.1 is a link into the stubs and stands first.
host_driver 535.161.08 0
stub cuda/lib64/stubs/libcuda.so
mkdir -p cuda_compat/compat && ln -s ../../cuda/lib64/stubs/libcuda.so cuda_compat/compat/libcuda.so.1
cuda_program p cuda_compat/compat/libcuda.so.1 -Wl,-rpath,'$ORIGIN/cuda_compat/compat:/run/opengl-driver/lib'
start ./p
