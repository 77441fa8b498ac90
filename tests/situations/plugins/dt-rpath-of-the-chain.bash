# The library in the middle has the DT_RPATH: it counts for what those need that it brings in.
library x/libdep.so libdep.so
library m/libmiddle.so libmiddle.so x/libdep.so
library plug/libplug.so libplug.so m/libmiddle.so -Wl,--disable-new-dtags '-Wl,-rpath,$ORIGIN/../m:$ORIGIN/../x'
opener p libplug.so -- '-Wl,-rpath,$ORIGIN/plug'
start ./p
