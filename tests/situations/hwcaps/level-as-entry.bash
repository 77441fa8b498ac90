# The run path names the level's directory itself, and that has levels of its own below it.
library lib/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
library lib/glibc-hwcaps/x86-64-v2/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
program p lib/glibc-hwcaps/x86-64-v2/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib/glibc-hwcaps/x86-64-v2'
start ./p
