# A level that glibc does not know (x86-64-v9) is no level: the library in it is missing.
library lib/glibc-hwcaps/x86-64-v9/libm2.so.1 libm2.so.1
program p lib/glibc-hwcaps/x86-64-v9/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
start ./p
