# In one tree an i386 program loads an i386 libdep.so.1; the 64-bit plugin of the 64-bit program lacks its own.
on i386 library x/libdep.so.1 libdep.so.1
on i386 program bin/p32 x/libdep.so.1 -Wl,-rpath,'$ORIGIN/../x'
library y/libdep.so.1 libdep.so.1
library plug/plug.so '' y/libdep.so.1
rm y/libdep.so.1
opener p ./plug/plug.so
start ./p
