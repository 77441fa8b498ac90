# A preloaded copy, matched by its soname, has no code for this GPU; the one in the run path has.
host
cuda_library old/libg.so.1 libg.so.1 "$(gpu 80)" /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
cuda_library new/libg.so.1 libg.so.1 "$(gpu 90)" /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
program p new/libg.so.1 '-Wl,-rpath,$ORIGIN/new'
gpu=9.0 because=libg.so.1 LD_PRELOAD=$PWD/old/libg.so.1 start ./p
