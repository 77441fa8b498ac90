# The plugin's dependency is found by the program's DT_RPATH, which counts for what it opens.
library x/libdep.so libdep.so
library plug/libplug.so libplug.so x/libdep.so
opener p libplug.so -- -Wl,--disable-new-dtags '-Wl,-rpath,$ORIGIN/plug:$ORIGIN/x'
start ./p
