# A library to be preloaded that is not there is passed over with a message.
library lib/libx.so.1 libx.so.1
program .p-wrapped lib/libx.so.1 '-Wl,-rpath,$ORIGIN/lib'
wrapper bin/p "$PWD/.p-wrapped" --set LD_PRELOAD "$PWD/lib/libgone.so"
start bin/p
