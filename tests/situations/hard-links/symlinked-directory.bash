# The run path's directory is a link; the library's own $ORIGIN/../dep begins at the link's name but ".." leads from its target.
library store/x/dep/libd.so.1 libd.so.1
library store/x/lib/libx.so.1 libx.so.1 store/x/dep/libd.so.1 -Wl,-rpath,'$ORIGIN/../dep'
ln -s store/x/lib lib
program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/lib'
start ./p
