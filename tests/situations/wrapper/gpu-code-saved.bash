# The other way round: the wrapper brings the copy that has code for this GPU.
host
cuda_library old/libg.so.1 libg.so.1 "$(gpu 80)" /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
cuda_library new/libg.so.1 libg.so.1 "$(gpu 90)" /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
program p.bin old/libg.so.1 '-Wl,-rpath,$ORIGIN/old'
wrapper bin/p "$PWD/p.bin" --prefix LD_LIBRARY_PATH : "$PWD/new"
gpu=9.0 start bin/p
