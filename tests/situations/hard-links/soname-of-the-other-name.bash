# liba.so.1 and libb.so.1 are one inode with the soname liba.so.1, in two directories; the program needs libb.so.1 by the second.
library x/liba.so.1 liba.so.1
library x/libb.so.1 libb.so.1
program p x/liba.so.1 x/libb.so.1 -Wl,-rpath,'$ORIGIN/x:$ORIGIN/y'
rm x/libb.so.1 && mkdir y && ln x/liba.so.1 y/libb.so.1
start ./p
