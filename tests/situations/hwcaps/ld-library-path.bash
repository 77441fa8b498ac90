# LD_LIBRARY_PATH's directory has nothing but a level: it is searched like any other directory, before the run path.
library lib/libm2.so.1 libm2.so.1
library env/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
program p lib/libm2.so.1 -Wl,--enable-new-dtags,-rpath,'$ORIGIN/lib'
LD_LIBRARY_PATH="$PWD/env" start ./p
