# The stub directory that stands first holds a 32-bit stub: it harms no 64-bit program.
host
on i386 stub lib/stubs/libcuda.so.1
cuda_program p /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,'$ORIGIN/lib/stubs:/run/opengl-driver/lib'
start ./p
