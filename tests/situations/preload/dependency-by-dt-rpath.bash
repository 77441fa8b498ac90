# The program's DT_RPATH does serve the preloaded library.
library lib/libdep.so.1 libdep.so.1
library pre/libpre.so libpre.so lib/libdep.so.1
program p lib/libdep.so.1 -Wl,--disable-new-dtags '-Wl,-rpath,$ORIGIN/lib'
LD_PRELOAD=$PWD/pre/libpre.so start ./p
