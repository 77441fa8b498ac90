# A start script that does not exec: the program is its child, and dies of a missing library.
library lib/libx.so.1 libx.so.1
program p.bin lib/libx.so.1
rm -r lib
executable bin/p <<SH
#!/bin/bash
$PWD/p.bin "\$@"
exit \$?
SH
start bin/p
