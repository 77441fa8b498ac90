# The copy in x86-64-v2 is for arm64: passed over for the plain one.
library lib/libm2.so.1 libm2.so.1
on arm64 library lib/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
program p lib/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
start ./p
