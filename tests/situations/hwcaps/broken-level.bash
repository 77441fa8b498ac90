# The plain copy is sound, the one for x86-64-v3 needs a library that is not there: the program does not start.
processor x86-64-v3
library gone/libgone.so.1 libgone.so.1
library lib/libm2.so.1 libm2.so.1
library lib/glibc-hwcaps/x86-64-v3/libm2.so.1 libm2.so.1 gone/libgone.so.1
rm -r gone
program p lib/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
start ./p
