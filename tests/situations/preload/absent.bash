# LD_PRELOAD of what is not there is passed over with a message.
library lib/libx.so.1 libx.so.1
program p lib/libx.so.1 '-Wl,-rpath,$ORIGIN/lib'
LD_PRELOAD=$PWD/lib/libgone.so start ./p
