# Note and DT_RPATH: the note's reader looks at it after DT_RPATH and LD_LIBRARY_PATH; here the DT_RPATH finds all.
library a/libx.so.1 libx.so.1
library b/libx.so.1 libx.so.1
program p a/libx.so.1 "$(note libx.so.1 "=$PWD/b/libx.so.1")" -Wl,--disable-new-dtags,-rpath,'$ORIGIN/a'
start ./p
