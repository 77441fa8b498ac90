# The entry is spelled with $LIB, which only the loader expands: on Debian the stubs lie in lib/x86_64-linux-gnu/stubs.
host
stub sdk/lib/x86_64-linux-gnu/stubs/libcuda.so.1
cuda_program p sdk/lib/x86_64-linux-gnu/stubs/libcuda.so.1 -Wl,-rpath,'$ORIGIN/sdk/${LIB}/stubs:/run/opengl-driver/lib'
start ./p
