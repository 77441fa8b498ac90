# makeBinaryWrapper's --set of LD_LIBRARY_PATH to the stubs: only the data of the compiled wrapper says so.
host
stub stubs/libcuda.so.1
cuda_program libexec/p stubs/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
binary_wrapper bin/p "$PWD/libexec/p" --set LD_LIBRARY_PATH "$PWD/stubs"
start bin/p
