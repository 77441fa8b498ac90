# The note names a 32-bit library; the run path has the right one.
on i386 library l32/libx.so.1 libx.so.1
library l64/libx.so.1 libx.so.1
program p l64/libx.so.1 "$(note libx.so.1 "=$PWD/l32/libx.so.1:=$PWD/l64/libx.so.1")" -Wl,-rpath,'$ORIGIN/l32'
start ./p
