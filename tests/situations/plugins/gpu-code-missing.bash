# The plugin that the program opens by name has GPU code, and none that this host's GPU can run.
host
cuda_library plug/libplug.so libplug.so /run/opengl-driver/lib/libcuda.so.1 "$(gpu 70 80)" -Wl,-rpath,/run/opengl-driver/lib
opener p libplug.so -- '-Wl,-rpath,$ORIGIN/plug'
gpu=9.0 because=libplug.so start ./p
