# An image of NVIDIA's sets LD_LIBRARY_PATH to its compat directory: it wins over the run path's driver link, and is too old.
host_driver 580.95.05 0
writable /usr/local
compat /usr/local/cuda/compat/lib.real/libcuda.so.1 803 12.2 '[450,470,525]'
ln -s lib.real /usr/local/cuda/compat/lib
cuda_program p /usr/local/cuda/compat/lib/libcuda.so.1 -Wl,--enable-new-dtags,-rpath,/run/opengl-driver/lib
LD_LIBRARY_PATH=/usr/local/cuda/compat/lib start ./p
