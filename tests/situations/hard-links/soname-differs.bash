# The file libx.so.1 has the soname libx.so.2; another library needs libx.so.2, a file that does not exist: the soname answers.
library lib/libx.so.2 libx.so.2
library lib/liby.so.1 liby.so.1 lib/libx.so.2
library lib/libx.so.1 libx.so.1
program p lib/libx.so.1 lib/liby.so.1 -Wl,-rpath,'$ORIGIN/lib'
mv lib/libx.so.2 lib/libx.so.1
start ./p
