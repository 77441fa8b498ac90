# What the preloaded library needs is needed by a library of the program as well, which comes later and finds it: too late.
library lib/libdep.so.1 libdep.so.1
library lib/libuse.so.1 libuse.so.1 lib/libdep.so.1 '-Wl,-rpath,$ORIGIN'
library pre/libpre.so libpre.so lib/libdep.so.1
program p lib/libuse.so.1 '-Wl,-rpath,$ORIGIN/lib'
LD_PRELOAD=$PWD/pre/libpre.so start ./p
