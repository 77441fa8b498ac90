# Two --prefix of one variable: the second stands before the first, so the copy of the second directory is loaded.
library first/libx.so.1 libx.so.1
library second/libx.so.1 libx.so.1 -lm
program libexec/p first/libx.so.1
binary_wrapper bin/p "$PWD/libexec/p" --prefix LD_LIBRARY_PATH : "$PWD/first" --prefix LD_LIBRARY_PATH : "$PWD/second"
start bin/p
