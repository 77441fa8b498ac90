# The run path's first directory has the i386 copy: glibc passes over it.
on i386 library lib32/libx.so.1 libx.so.1
library lib64/libx.so.1 libx.so.1
program p lib64/libx.so.1 -Wl,-rpath,'$ORIGIN/lib32:$ORIGIN/lib64'
start ./p
