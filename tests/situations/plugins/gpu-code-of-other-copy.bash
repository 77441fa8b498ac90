# Two copies of a library with GPU code: the first open decides that the one without code for this GPU serves both plugins.
host
cuda_library a/libg.so.1 libg.so.1 "$(gpu 80)" /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
cuda_library b/libg.so.1 libg.so.1 "$(gpu 90)" /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
library plug/libone.so libone.so a/libg.so.1 '-Wl,-rpath,$ORIGIN/../a'
library plug/libtwo.so libtwo.so b/libg.so.1 '-Wl,-rpath,$ORIGIN/../b'
opener p libone.so libtwo.so -- '-Wl,-rpath,$ORIGIN/plug'
gpu=9.0 because=libg.so.1 start ./p
