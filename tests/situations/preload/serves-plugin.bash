# A plugin needs libdep.so, which its run path has not; a preloaded library brought it.
library x/libdep.so libdep.so
library plug/libplug.so libplug.so x/libdep.so
opener p libplug.so -- '-Wl,-rpath,$ORIGIN/plug'
LD_PRELOAD=$PWD/x/libdep.so start ./p
