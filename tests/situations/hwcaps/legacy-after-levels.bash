# A level and an old directory: glibc-hwcaps comes first where the loader knows both.
library lib/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
library lib/tls/libm2.so.1 libm2.so.1
program p lib/tls/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
start ./p
