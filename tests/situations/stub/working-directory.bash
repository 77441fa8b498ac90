# The run path ends in a colon, as nixpkgs' driver hook once left it, on a host without a driver: the working directory has a stub.
stub libcuda.so.1
cuda_program p libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib:
start ./p
