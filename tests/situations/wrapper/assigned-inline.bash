# VAR=value exec program: the variable is the program's, without an export.
library lib/libx.so.1 libx.so.1
program p.bin lib/libx.so.1
executable bin/p <<SH
#!/bin/sh
LD_LIBRARY_PATH=$PWD/lib exec $PWD/p.bin "\$@"
SH
start bin/p
