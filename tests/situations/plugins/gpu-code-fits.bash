# The same with code for this GPU.
host
cuda_library plug/libplug.so libplug.so /run/opengl-driver/lib/libcuda.so.1 "$(gpu 80 90)" -Wl,-rpath,/run/opengl-driver/lib
opener p libplug.so -- '-Wl,-rpath,$ORIGIN/plug'
gpu=9.0 start ./p
