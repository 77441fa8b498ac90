# The same two directories for an i386 program: now the 64-bit copy is passed over.
library lib64/libx.so.1 libx.so.1
on i386 library lib32/libx.so.1 libx.so.1
on i386 program p lib32/libx.so.1 -Wl,-rpath,'$ORIGIN/lib64:$ORIGIN/lib32'
start ./p
