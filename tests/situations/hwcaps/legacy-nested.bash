# The old names combine: tls/x86_64 comes before tls and before x86_64.
library lib/libm2.so.1 libm2.so.1
library lib/x86_64/libm2.so.1 libm2.so.1
library lib/tls/libm2.so.1 libm2.so.1
library lib/tls/x86_64/libm2.so.1 libm2.so.1
program p lib/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
start ./p
