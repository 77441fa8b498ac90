# Only an i386 copy is there: it is not "missing" in the sense that no file has that name.
on i386 library lib/libx.so.1 libx.so.1
library lib64/libx.so.1 libx.so.1
program p lib64/libx.so.1 -Wl,-rpath,'$ORIGIN/lib'
rm -r lib64
start ./p
