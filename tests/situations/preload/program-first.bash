# Program and preloaded library both need libx: breadth first, the program's own needs come before those of a preloaded one.
library a/libx.so.1 libx.so.1
library b/libx.so.1 libx.so.1 -lm
library pre/libpre.so libpre.so b/libx.so.1 '-Wl,-rpath,$ORIGIN/../b'
program p a/libx.so.1 '-Wl,-rpath,$ORIGIN/a'
LD_PRELOAD=$PWD/pre/libpre.so start ./p
