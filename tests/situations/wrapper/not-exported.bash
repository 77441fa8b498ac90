# The variable is set and not exported, so the program never sees it and does not start.
library lib/libx.so.1 libx.so.1
program p.bin lib/libx.so.1
executable bin/p <<SH
#!/bin/sh
LD_LIBRARY_PATH=$PWD/lib
exec $PWD/p.bin "\$@"
SH
start bin/p
