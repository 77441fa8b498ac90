# The first entry has a plain copy, the second one for x86-64-v2: entries come before levels.
library a/libm2.so.1 libm2.so.1
library b/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
program p a/libm2.so.1 -Wl,-rpath,'$ORIGIN/a:$ORIGIN/b'
start ./p
