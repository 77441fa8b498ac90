# Note and run path say the same, as patchelf leaves a file: nothing is wrong with this one but that nobody reads the note.
library lib/libx.so.1 libx.so.1
library lib/liby.so.1 liby.so.1
program p lib/libx.so.1 lib/liby.so.1 "$(note libx.so.1 "=$PWD/lib/libx.so.1" liby.so.1 "=$PWD/lib/liby.so.1")" -Wl,-rpath,"$PWD/lib"
start ./p
