# Note and run path both prefer the private libcuda to the driver link behind it: the process takes it, whatever reads the note.
host
driver other/libcuda.so.1 3
cuda_program p other/libcuda.so.1 "$(note libcuda.so.1 "=$PWD/other/libcuda.so.1")" -Wl,-rpath,"$PWD/other:/run/opengl-driver/lib"
start ./p
