# The cache still names the level's copy, whose file was removed since: the loader does not go back to the plain one in the cache.
writable /usr/local
library /usr/local/m2/libm2.so.1 libm2.so.1
library /usr/local/m2/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
cached /usr/local/m2
program p /usr/local/m2/libm2.so.1
rm /usr/local/m2/glibc-hwcaps/x86-64-v2/libm2.so.1
start ./p
