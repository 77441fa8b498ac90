# The note is a library's, for what that library needs; the program's run path is not its own.
library lib/libdep.so.1 libdep.so.1
library lib/libx.so.1 libx.so.1 lib/libdep.so.1 "$(note libdep.so.1 "=$PWD/lib/libdep.so.1")"
program p lib/libx.so.1 -Wl,--enable-new-dtags,-rpath,'$ORIGIN/lib'
start ./p
