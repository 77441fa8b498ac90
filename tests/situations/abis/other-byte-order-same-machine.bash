# A copy whose header says x86-64 in the other byte order, as a big-endian machine would write it: read here, that is another machine.
library odd/libx.so.1 libx.so.1
patch odd/libx.so.1 5 '\2'
patch odd/libx.so.1 18 '\0\76'
library lib/libx.so.1 libx.so.1
program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/odd:$ORIGIN/lib'
start ./p
