# A relative path in LD_PRELOAD is the working directory's.
library lib/libpre.so libpre.so
program bin/p
LD_PRELOAD=lib/libpre.so start bin/p
