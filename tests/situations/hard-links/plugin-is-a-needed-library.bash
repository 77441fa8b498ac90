# The plugin's file is the inode of a library that the program has: opening it loads nothing, its own $ORIGIN never counts.
library lib/libd.so.1 libd.so.1
library lib/libx.so.1 libx.so.1 lib/libd.so.1 -Wl,-rpath,'$ORIGIN'
opener p ./plugins/x.so -- lib/libx.so.1 -Wl,-rpath,'$ORIGIN/lib'
mkdir plugins && ln lib/libx.so.1 plugins/x.so
start ./p
