# A plugin opened by its path is not looked for in levels; the library that it needs is.
library lib/libdep.so.1 libdep.so.1
library lib/glibc-hwcaps/x86-64-v2/libdep.so.1 libdep.so.1
library lib/plug.so '' lib/libdep.so.1 -Wl,-rpath,'$ORIGIN'
library lib/glibc-hwcaps/x86-64-v2/plug.so ''
opener p ./lib/plug.so
start ./p
