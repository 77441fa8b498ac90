# The first entry holds a toolkit's libcuda.so.1 for arm64, so the second, a stub, is taken before the driver.
host
on arm64 driver sdk/lib/libcuda.so.1 0
stub sdk/x86/stubs/libcuda.so.1
cuda_program p sdk/x86/stubs/libcuda.so.1 -Wl,-rpath,'$ORIGIN/sdk/lib:$ORIGIN/sdk/x86/stubs:/run/opengl-driver/lib'
start ./p
