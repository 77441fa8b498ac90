# LD_PRELOAD of a library that needs what is not there: the program does not start.
library gone/libgone.so.1 libgone.so.1
library lib/libpre.so libpre.so gone/libgone.so.1
rm -r gone
program p
LD_PRELOAD=$PWD/lib/libpre.so start ./p
