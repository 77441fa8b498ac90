# Two directories of the cache, in the second a level: a level wins over an earlier directory in the cache, unlike in a run path.
writable /usr/local
library /usr/local/a/libm2.so.1 libm2.so.1
library /usr/local/b/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
cached /usr/local/a /usr/local/b
program p /usr/local/a/libm2.so.1
start ./p
