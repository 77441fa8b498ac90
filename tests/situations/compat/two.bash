# Two compat packages in one run path, of CUDA 12.2 and 12.4: the first one decides, and it is the one that does not help.
host_driver 545.23.08 0
compat a/compat/libcuda.so.1 803 12.2 '[470,535]'
compat b/compat/libcuda.so.1 0 12.4 '[470,535,545]'
cuda_program p b/compat/libcuda.so.1 -Wl,-rpath,'$ORIGIN/a/compat:$ORIGIN/b/compat:/run/opengl-driver/lib'
start ./p
