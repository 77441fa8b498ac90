# Opened by path, then by its soname: the soname matches what is there, and no directory is looked at.
library a/libx-2.so libx.so.1
library b/libx.so.1 libx.so.1 -lm
opener p "$PWD/a/libx-2.so" libx.so.1 -- '-Wl,-rpath,$ORIGIN/b'
start ./p
