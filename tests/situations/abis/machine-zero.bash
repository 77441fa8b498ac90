# A copy with machine 0 and everything else right, such as tools that make objects from nothing leave: passed over.
library odd/libx.so.1 libx.so.1
patch odd/libx.so.1 18 '\0\0'
library lib/libx.so.1 libx.so.1
program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/odd:$ORIGIN/lib'
start ./p
