# The name leads to a position-independent program: it has a dynamic section and cannot be loaded.
library lib/libx.so.1 libx.so.1
program odd/libx.so.1
program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/odd:$ORIGIN/lib'
start ./p
