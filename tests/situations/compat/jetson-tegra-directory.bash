# A Jetson without a driver link: the driver lies in tegra's directory, which LD_LIBRARY_PATH names; it wins over compat's DT_RUNPATH.
on arm64 library tegra/libnvrm_gpu.so libnvrm_gpu.so
on arm64 driver tegra/libcuda.so.1 0 tegra/libnvrm_gpu.so
on arm64 compat cuda_compat/compat/libcuda.so.1 0 12.2 '[535]' tegra/libnvrm_gpu.so
on arm64 cuda_program p cuda_compat/compat/libcuda.so.1 -Wl,--enable-new-dtags,-rpath,'$ORIGIN/cuda_compat/compat:/run/opengl-driver/lib'
LD_LIBRARY_PATH=$PWD/tegra start qemu-aarch64 ./p
