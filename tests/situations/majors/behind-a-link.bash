# libcudart.so.12 is a link to a file whose soname is libcudart.so.13: one library in the process, for whoever asks for either.
host
library lib/libcudart.so.13 libcudart.so.13
library made/libcudart.so.12 libcudart.so.12
ln -s libcudart.so.13 lib/libcudart.so.12
program p made/libcudart.so.12 '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
rm -r made
start ./p
