# A file that is no library lies before the right one: that ends the search, and the plugin cannot be opened.
mkdir a; head -c 200 /dev/zero | tr '\0' x >a/libplug.so
library b/libplug.so libplug.so
opener p libplug.so -- '-Wl,-rpath,$ORIGIN/a:$ORIGIN/b'
start ./p
