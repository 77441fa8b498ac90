# Note and run path lead to different copies of one library; they differ in what they need, and the run path's copy lacks it.
library gone/libgone.so.1 libgone.so.1
library a/libx.so.1 libx.so.1
library b/libx.so.1 libx.so.1 gone/libgone.so.1
rm gone/libgone.so.1
program p a/libx.so.1 "$(note libx.so.1 "=$PWD/a/libx.so.1")" -Wl,-rpath,'$ORIGIN/b:$ORIGIN/a'
start ./p
