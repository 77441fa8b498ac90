# -z nodefaultlib passes over the cache's entries in default directories only: the stub of /usr/local/cuda is taken all the same.
writable /usr/local
stub /usr/local/cuda/lib64/stubs/libcuda.so.1
cached /usr/local/cuda/lib64/stubs
mkdir lib && ln -s "$(gcc -print-file-name=libc.so.6)" lib/libc.so.6
cuda_program p /usr/local/cuda/lib64/stubs/libcuda.so.1 -Wl,-z,nodefaultlib,-rpath,'/run/opengl-driver/lib:$ORIGIN/lib'
start ./p
