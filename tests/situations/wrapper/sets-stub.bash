# makeWrapper's --set LD_LIBRARY_PATH leads past the driver link to a stub, which the program alone would never load.
host
stub stubs/libcuda.so.1
cuda_program .p-wrapped stubs/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
wrapper bin/p "$PWD/.p-wrapped" --set LD_LIBRARY_PATH "$PWD/stubs" --inherit-argv0
start bin/p
