# By name, then another copy by path: a path is not matched by a soname, so both copies are in the process.
library a/libx.so.1 libx.so.1
library c/libx.so.1 libx.so.1 -lm
opener p libx.so.1 "$PWD/a/libx.so.1" -- '-Wl,-rpath,$ORIGIN/c'
start ./p
