# The first copy was cut off after 40 bytes by a full disk: the loader stops there.
library cut/libx.so.1 libx.so.1
truncate -s 40 cut/libx.so.1
library lib/libx.so.1 libx.so.1
program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/cut:$ORIGIN/lib'
start ./p
