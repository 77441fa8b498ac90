# EI_ABIVERSION 1 with the OS ABI "GNU": a version that this loader knows, so the file is loaded.
library odd/libx.so.1 libx.so.1
patch odd/libx.so.1 7 '\3\1'
library lib/libx.so.1 libx.so.1
program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/odd:$ORIGIN/lib'
start ./p
