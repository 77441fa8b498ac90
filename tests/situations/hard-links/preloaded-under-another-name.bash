# LD_PRELOAD names the second name of a library that the program needs; their sonames do not matter, the inode is the same.
library lib/libx.so.1 libx.so.1
mkdir hooks && ln lib/libx.so.1 hooks/hook.so
program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/lib'
LD_PRELOAD=$PWD/hooks/hook.so start ./p
