# export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:DIR with nothing set before: the empty entry is the working directory, whose copy wins.
library libx.so.1 libx.so.1
library lib/libx.so.1 libx.so.1 -lm
program libexec/p lib/libx.so.1
executable bin/p <<SH
#!/bin/sh
export LD_LIBRARY_PATH=\$LD_LIBRARY_PATH:$PWD/lib
exec $PWD/libexec/p "\$@"
SH
start bin/p
