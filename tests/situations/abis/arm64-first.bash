# The first copy is arm64's: same class, same byte order, another machine.
on arm64 library arm64/libx.so.1 libx.so.1
library lib/libx.so.1 libx.so.1
program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/arm64:$ORIGIN/lib'
start ./p
