# A Jetson: driver libraries of L4T in the driver link, compat for CUDA 12.2 patched with the driver link, all for arm64.
on arm64 host_driver 35.4.1 0
on arm64 library /run/opengl-driver/lib/libnvrm_gpu.so libnvrm_gpu.so
on arm64 compat cuda_compat/compat/libcuda.so.1 0 12.2 '[535]' /run/opengl-driver/lib/libnvrm_gpu.so -Wl,-rpath,/run/opengl-driver/lib
on arm64 cuda_program p cuda_compat/compat/libcuda.so.1 -Wl,-rpath,'$ORIGIN/cuda_compat/compat:/run/opengl-driver/lib'
start qemu-aarch64 ./p
