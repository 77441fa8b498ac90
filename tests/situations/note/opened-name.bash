# A name that dlopen gets stands in the note; the run path's first directory has another copy.
library a/libx.so.1 libx.so.1
library b/libx.so.1 libx.so.1
opener p libx.so.1 -- "$(note libx.so.1 "=$PWD/b/libx.so.1")" -Wl,-rpath,'$ORIGIN/a:$ORIGIN/b'
start ./p
