# The note leads to a file of an older version that is gone; the run path was changed since and is right.
library new/libx.so.1 libx.so.1
program p new/libx.so.1 "$(note libx.so.1 "=$PWD/old/libx.so.1")" -Wl,-rpath,'$ORIGIN/new'
start ./p
