# musl knows no levels and no old directories: the library in them is missing.
on musl library lib/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
on musl library lib/tls/libm2.so.1 libm2.so.1
on musl program p lib/tls/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
start ./p
