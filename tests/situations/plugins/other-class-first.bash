# A library for i386 lies before the right one: the loader passes over it.
on i386 library a/libplug.so libplug.so
library b/libplug.so libplug.so
opener p libplug.so -- '-Wl,-rpath,$ORIGIN/a:$ORIGIN/b'
start ./p
