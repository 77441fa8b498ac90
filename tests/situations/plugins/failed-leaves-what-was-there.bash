# What was in the process before a failed open stays, with its names: the second plugin gets the copy of the first.
library a/libx.so libx.so
library b/libx.so libx.so -lm
library gone/libgone.so libgone.so
library f/libfirst.so libfirst.so a/libx.so '-Wl,-rpath,$ORIGIN/../a'
library f/libfail.so libfail.so b/libx.so gone/libgone.so '-Wl,-rpath,$ORIGIN/../b'
library f/libok.so libok.so b/libx.so '-Wl,-rpath,$ORIGIN/../b'
rm -r gone
opener p libfirst.so libfail.so libok.so -- '-Wl,-rpath,$ORIGIN/f'
start ./p
