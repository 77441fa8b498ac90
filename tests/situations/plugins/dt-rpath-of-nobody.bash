# lib0 has a DT_RPATH that would serve lib2's need, but nobody needs or opens lib0: the program dies.
library c/lib3.so.1 lib3.so.1
library c/lib2.so.1 lib2.so.1 c/lib3.so.1
library c/lib0.so.1 lib0.so.1 c/lib2.so.1 -Wl,--disable-new-dtags '-Wl,-rpath,$ORIGIN'
program p c/lib2.so.1 '-Wl,-rpath,$ORIGIN/c'
start ./p
