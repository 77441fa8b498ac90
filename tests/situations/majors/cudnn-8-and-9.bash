# Two majors of cuDNN, which have the names of their functions in common.
host
with 'int cudnnCreate(void) { return 8; }' library lib/libcudnn.so.8 libcudnn.so.8
with 'int cudnnCreate(void) { return 9; }' library lib/libcudnn.so.9 libcudnn.so.9
library lib/libuse.so libuse.so lib/libcudnn.so.8 '-Wl,-rpath,$ORIGIN'
program p lib/libcudnn.so.9 lib/libuse.so '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
because='libcudnn.so.8 libcudnn.so.9' start ./p
