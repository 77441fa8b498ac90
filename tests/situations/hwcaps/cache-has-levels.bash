# The cache has a plain copy and one for x86-64-v2 of the same library; the loader prefers the level.
writable /usr/local
library /usr/local/m2/libm2.so.1 libm2.so.1
library /usr/local/m2/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
cached /usr/local/m2
program p /usr/local/m2/libm2.so.1
start ./p
