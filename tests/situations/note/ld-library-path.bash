# LD_LIBRARY_PATH comes before note and run path alike: its copy is taken.
library env/libx.so.1 libx.so.1
library lib/libx.so.1 libx.so.1
program p lib/libx.so.1 "$(note libx.so.1 "=$PWD/lib/libx.so.1")" -Wl,-rpath,'$ORIGIN/lib'
LD_LIBRARY_PATH=$PWD/env start ./p
