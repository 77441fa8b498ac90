# Two, separated by a colon and by a space; the first is absent, the second is there.
library lib/libpre.so libpre.so
library lib/libmore.so libmore.so
program p
LD_PRELOAD="$PWD/lib/libgone.so:$PWD/lib/libpre.so $PWD/lib/libmore.so" start ./p
