# A set-user-ID program takes no library by a path from LD_PRELOAD: the run path's driver is used, not the stub.
users
host
stub stubs/libcuda.so.1
cuda_program p stubs/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
chmod u+s p
asked=./p LD_PRELOAD=$PWD/stubs/libcuda.so.1 start "${as_user[@]}" ./p
