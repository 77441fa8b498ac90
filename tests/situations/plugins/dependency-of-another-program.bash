# Another program of the directory would bring what the plugin needs; the one that opens the plugin does not.
library x/libdep.so libdep.so
library plug/libplug.so libplug.so x/libdep.so
program other x/libdep.so '-Wl,-rpath,$ORIGIN/x'
opener p libplug.so -- '-Wl,-rpath,$ORIGIN/plug'
start ./p
