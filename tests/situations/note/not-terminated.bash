# The note does not end in two zero bytes, which even a loader that knows it takes for none.
library lib/libx.so.1 libx.so.1
program p lib/libx.so.1 "$(note --unended libx.so.1 "=$PWD/other/libx.so.1")" -Wl,-rpath,'$ORIGIN/lib'
start ./p
