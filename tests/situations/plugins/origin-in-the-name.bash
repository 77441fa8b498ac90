# dlopen("$ORIGIN/plug/libplug.so"): the loader expands the token by the caller's directory.
library lib/plug/libplug.so libplug.so
opener lib/p '$ORIGIN/plug/libplug.so'
start lib/p
