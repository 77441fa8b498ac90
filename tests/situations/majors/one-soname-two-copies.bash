# Two copies of one runtime: by its soname the first serves both, and there is one in the process.
host
library a/libcudart.so.12 libcudart.so.12
library b/libcudart.so.12 libcudart.so.12 -lm
library b/libuse.so libuse.so b/libcudart.so.12 '-Wl,-rpath,$ORIGIN'
program p a/libcudart.so.12 b/libuse.so '-Wl,-rpath,$ORIGIN/a:$ORIGIN/b:/run/opengl-driver/lib'
start ./p
