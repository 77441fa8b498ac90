# One string ends as the other: the linker keeps one, and a reader of strings sees only the path, or searches c for the name.
library a/libx.so.1 libx.so.1
library c/libx.so.1 libx.so.1 -lm
opener p "$PWD/a/libx.so.1" libx.so.1 -- -O2 '-Wl,-rpath,$ORIGIN/c'
start ./p
