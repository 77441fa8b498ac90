# The first copy is for x32: machine x86-64, class 32. It is passed over.
on x32 library x32/libx.so.1 libx.so.1
library lib/libx.so.1 libx.so.1
program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/x32:$ORIGIN/lib'
start ./p
