# libcublas of 13 finds libcublasLt of 12 as well, since somebody else needs that.
host
library lib/libcublasLt.so.13 libcublasLt.so.13
library lib/libcublasLt.so.12 libcublasLt.so.12
library lib/libcublas.so.13 libcublas.so.13 lib/libcublasLt.so.13 '-Wl,-rpath,$ORIGIN'
program p lib/libcublas.so.13 lib/libcublasLt.so.12 '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
because='libcublasLt.so.12 libcublas.so.13 libcublasLt.so.13' start ./p
