# Two notes in one file, with different answers, as a link of two annotated objects would leave them.
library a/libx.so.1 libx.so.1
library b/libx.so.1 libx.so.1
program p a/libx.so.1 "$(note libx.so.1 "=$PWD/a/libx.so.1")" "$(note libx.so.1 "=$PWD/b/libx.so.1")" -Wl,-rpath,"$PWD/b:$PWD/a"
start ./p
