# arm64 has no levels, so glibc-hwcaps/x86-64-v2 is nothing there; tls of old it has.
on arm64 library lib/libm2.so.1 libm2.so.1
on arm64 library lib/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
on arm64 library lib/tls/libm2.so.1 libm2.so.1
on arm64 program p lib/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
start qemu-aarch64 ./p
