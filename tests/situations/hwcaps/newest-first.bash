# Two levels and a plain copy: the highest that this processor has is taken.
processor x86-64-v3
library lib/libm2.so.1 libm2.so.1
library lib/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
library lib/glibc-hwcaps/x86-64-v3/libm2.so.1 libm2.so.1
program p lib/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
start ./p
