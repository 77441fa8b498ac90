# A copy with the OS ABI of FreeBSD in the first directory.
library odd/libx.so.1 libx.so.1
patch odd/libx.so.1 7 '\11'
library lib/libx.so.1 libx.so.1
program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/odd:$ORIGIN/lib'
start ./p
