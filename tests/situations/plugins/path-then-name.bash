# Opened by path, then by the bare name: the file has no soname, so the second search finds the other copy.
library a/libx.so ''
library b/libx.so '' -lm
opener p "$PWD/a/libx.so" libx.so -- '-Wl,-rpath,$ORIGIN/b'
start ./p
