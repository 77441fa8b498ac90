# ld.so.conf names /usr/local/cuda/lib64/stubs: ldconfig makes libcuda.so.1 beside the stub, and no driver link is in the run path.
writable /usr/local
stub /usr/local/cuda/lib64/stubs/libcuda.so
cached /usr/local/cuda/lib64/stubs
cuda_program p /usr/local/cuda/lib64/stubs/libcuda.so
start ./p
