# The same plugin with musl's libc.so beside it: now glibc loads a second C library into the process.
on musl library plug.so '' -Wl,-rpath,'$ORIGIN/musl'
mkdir musl && cp /lib/ld-musl-x86_64.so.1 musl/libc.so
opener p --lazy ./plug.so
start ./p
