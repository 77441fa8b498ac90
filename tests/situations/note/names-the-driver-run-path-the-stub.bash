# The other way round: the note is right, the run path has the stub first. Who believes the note is wrong here.
host
stub lib/stubs/libcuda.so.1
cuda_program p lib/stubs/libcuda.so.1 "$(note libcuda.so.1 '?/run/opengl-driver/lib')" -Wl,-rpath,'$ORIGIN/lib/stubs:/run/opengl-driver/lib'
start ./p
