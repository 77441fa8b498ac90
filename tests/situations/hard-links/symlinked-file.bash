# A link to the library's file: $ORIGIN is the link's directory, not the target's, so the neighbour is not found.
library store/libd.so.1 libd.so.1
library store/libx.so.1 libx.so.1 store/libd.so.1 -Wl,-rpath,'$ORIGIN'
mkdir lib && ln -s ../store/libx.so.1 lib/libx.so.1
program p lib/libx.so.1 -Wl,--enable-new-dtags,-rpath,'$ORIGIN/lib'
start ./p
