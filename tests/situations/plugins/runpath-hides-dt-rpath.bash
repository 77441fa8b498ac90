# The plugin has a DT_RUNPATH of its own, for something else: that switches the program's DT_RPATH off for what it needs.
library x/libdep.so libdep.so
library plug/libplug.so libplug.so x/libdep.so '-Wl,-rpath,$ORIGIN'
opener p libplug.so -- -Wl,--disable-new-dtags '-Wl,-rpath,$ORIGIN/plug:$ORIGIN/x'
start ./p
