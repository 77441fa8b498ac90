# The same where tls/ has the only copy.
library lib/tls/libm2.so.1 libm2.so.1
program p lib/tls/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
start ./p
