# The library is nowhere but in glibc-hwcaps/x86-64-v2: who looks at the run path's directory alone misses it.
library lib/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
program p lib/glibc-hwcaps/x86-64-v2/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
start ./p
