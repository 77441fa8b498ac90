# stubReplaceForChecks as it looks from outside: links by soname to stubs, offered by LD_LIBRARY_PATH where there is no driver.
stub cuda/lib64/stubs/libcuda.so
mkdir offer && ln -s ../cuda/lib64/stubs/libcuda.so offer/libcuda.so.1
cuda_program p offer/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
LD_LIBRARY_PATH="$PWD/offer" start ./p
