# The copy in x86-64-v2 has the run path $ORIGIN, which is its own directory there: its neighbour in lib is not found.
library lib/libdep.so.1 libdep.so.1
library lib/libm2.so.1 libm2.so.1 lib/libdep.so.1 -Wl,-rpath,'$ORIGIN'
mkdir -p lib/glibc-hwcaps/x86-64-v2 && cp lib/libm2.so.1 lib/glibc-hwcaps/x86-64-v2/
program p lib/libm2.so.1 -Wl,--enable-new-dtags,-rpath,'$ORIGIN/lib'
start ./p
