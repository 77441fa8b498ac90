# A directory has the library's name.
library lib/libx.so.1 libx.so.1
mkdir -p odd/libx.so.1
program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/odd:$ORIGIN/lib'
start ./p
