# The file was cut off in the middle of its last segment: the header is right, mapping works, and reading what is not there is a bus error.
library lib/libx.so.1 libx.so.1
program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/lib'
truncate -s 4096 lib/libx.so.1
start ./p
