# The plugin that the program opens by name leads to a stub by its own run path.
host
stub stubs/libcuda.so.1
cuda_library plug/libplug.so libplug.so stubs/libcuda.so.1 "-Wl,-rpath,$PWD/stubs"
opener p libplug.so -- '-Wl,-rpath,$ORIGIN/plug'
start ./p
