# A program needs two names that are one inode without a soname: one object is loaded, it answers to both.
library lib/liba.so.1 ''
ln lib/liba.so.1 lib/libb.so.1
program p -Llib -l:liba.so.1 -l:libb.so.1 -Wl,-rpath,'$ORIGIN/lib'
start ./p
