# The directory is called stubs, stands first, and holds nothing but a link to this host's driver: the process is right.
host
mkdir -p lib/stubs && ln -s /run/opengl-driver/lib/libcuda.so.1 lib/stubs/libcuda.so.1
cuda_program p lib/stubs/libcuda.so.1 -Wl,-rpath,'$ORIGIN/lib/stubs:/run/opengl-driver/lib'
start ./p
