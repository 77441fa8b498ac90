# The plugin's dependency is found by LD_LIBRARY_PATH alone, which whoever starts the program has set.
library x/libdep.so libdep.so
library plug/libplug.so libplug.so x/libdep.so
opener p libplug.so -- '-Wl,-rpath,$ORIGIN/plug'
LD_LIBRARY_PATH=$PWD/x start ./p
