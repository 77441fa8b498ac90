# The plugin has no run path, and what it needs is in the process already, because the program needs it too.
library x/libdep.so libdep.so
library plug/libplug.so libplug.so x/libdep.so
opener p libplug.so -- x/libdep.so '-Wl,-rpath,$ORIGIN/plug:$ORIGIN/x'
start ./p
