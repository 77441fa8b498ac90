# EI_ABIVERSION 1 with the OS ABI "System V": refused.
library odd/libx.so.1 libx.so.1
patch odd/libx.so.1 8 '\1'
library lib/libx.so.1 libx.so.1
program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/odd:$ORIGIN/lib'
start ./p
