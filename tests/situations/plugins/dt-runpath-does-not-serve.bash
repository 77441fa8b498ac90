# The same with DT_RUNPATH, which counts for the program's own needs alone: the plugin cannot be opened.
library x/libdep.so libdep.so
library plug/libplug.so libplug.so x/libdep.so
opener p libplug.so -- '-Wl,-rpath,$ORIGIN/plug:$ORIGIN/x'
start ./p
