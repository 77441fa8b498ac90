# The same, but the program has a DT_RPATH: the copy without a run path of its own inherits $ORIGIN/lib and works.
library lib/libdep.so.1 libdep.so.1
library lib/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1 lib/libdep.so.1
program p lib/glibc-hwcaps/x86-64-v2/libm2.so.1 -Wl,--disable-new-dtags,-rpath,'$ORIGIN/lib'
start ./p
