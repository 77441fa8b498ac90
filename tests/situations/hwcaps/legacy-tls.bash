# tls/ below an entry: the loaders of glibc up to 2.36 look there first, later ones never.
library lib/libm2.so.1 libm2.so.1
library lib/tls/libm2.so.1 libm2.so.1
program p lib/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
start ./p
