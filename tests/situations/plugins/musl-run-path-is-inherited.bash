# musl: the program's DT_RUNPATH counts for what its libraries need, which glibc's does not.
on musl library x/libdep.so libdep.so
on musl library plug/libplug.so libplug.so x/libdep.so
on musl opener p libplug.so -- "-Wl,-rpath,$PWD/plug:$PWD/x"
start ./p
