# All that says where the library is, is the note: the ordinary loader finds nothing.
library lib/libx.so.1 libx.so.1
program p lib/libx.so.1 "$(note libx.so.1 "=$PWD/lib/libx.so.1")"
start ./p
