# The note's section is there, but no PT_NOTE covers it (not allocated): no loader sees it.
library lib/libx.so.1 libx.so.1
program p lib/libx.so.1 "$(note --not-loaded libx.so.1 "=$PWD/other/libx.so.1")" -Wl,-rpath,'$ORIGIN/lib'
start ./p
