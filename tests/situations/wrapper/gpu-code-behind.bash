# The wrapper's directory brings a copy without code for this GPU, in place of the run path's, which has it.
host
cuda_library old/libg.so.1 libg.so.1 "$(gpu 80)" /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
cuda_library new/libg.so.1 libg.so.1 "$(gpu 90)" /run/opengl-driver/lib/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
program p.bin new/libg.so.1 '-Wl,-rpath,$ORIGIN/new'
wrapper bin/p "$PWD/p.bin" --prefix LD_LIBRARY_PATH : "$PWD/old"
gpu=9.0 because=libg.so.1 start bin/p
