# A plugin that cannot be opened had mapped a/libx.so; the next one has its own b/libx.so, and that is the one in the process.
library a/libx.so libx.so
library b/libx.so libx.so -lm
library gone/libgone.so libgone.so
library f/libfail.so libfail.so a/libx.so gone/libgone.so '-Wl,-rpath,$ORIGIN/../a'
library o/libok.so libok.so b/libx.so '-Wl,-rpath,$ORIGIN/../b'
rm -r gone
opener p libfail.so libok.so libx.so -- '-Wl,-rpath,$ORIGIN/f:$ORIGIN/o'
start ./p
