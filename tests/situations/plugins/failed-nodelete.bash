# The same with a library that asks to stay (DF_1_NODELETE): the flag counts only once an open has succeeded.
library a/libx.so libx.so -Wl,-z,nodelete
library b/libx.so libx.so -lm
library gone/libgone.so libgone.so
library f/libfail.so libfail.so a/libx.so gone/libgone.so '-Wl,-rpath,$ORIGIN/../a'
library o/libok.so libok.so b/libx.so '-Wl,-rpath,$ORIGIN/../b'
rm -r gone
opener p libfail.so libok.so -- '-Wl,-rpath,$ORIGIN/f:$ORIGIN/o'
start ./p
