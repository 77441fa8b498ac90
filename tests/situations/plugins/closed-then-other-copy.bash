# The first copy is closed again and unloaded, so the name is searched anew.
library a/libx.so.1 libx.so.1
library b/libx.so.1 libx.so.1 -lm
library plug/libplug.so libplug.so b/libx.so.1 '-Wl,-rpath,$ORIGIN/../b'
opener p --close "$PWD/a/libx.so.1" libplug.so -- '-Wl,-rpath,$ORIGIN/plug'
start ./p
