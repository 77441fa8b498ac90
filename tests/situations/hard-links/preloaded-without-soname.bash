# The same without a soname, and the program's run path does not hold it: the preloaded inode does not answer to the needed name.
library lib/libx.so.1 ''
mkdir hooks && ln lib/libx.so.1 hooks/hook.so
program p -Llib -l:libx.so.1
LD_PRELOAD=$PWD/hooks/hook.so start ./p
