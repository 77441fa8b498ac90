# Only EI_DATA says big-endian, the fields are little-endian: the machine is this one, so the loader does not go on.
library odd/libx.so.1 libx.so.1
patch odd/libx.so.1 5 '\2'
library lib/libx.so.1 libx.so.1
program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/odd:$ORIGIN/lib'
start ./p
