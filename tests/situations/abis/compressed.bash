# The library was compressed in place (libx.so.1 is gzip data), as some installers leave it until first use.
library lib/libx.so.1 libx.so.1
program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/odd:$ORIGIN/lib'
mkdir odd && gzip -nc lib/libx.so.1 >odd/libx.so.1
start ./p
