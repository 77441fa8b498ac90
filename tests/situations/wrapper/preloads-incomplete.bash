# The library to be preloaded is there, and what it needs is not: that ends the start.
library gone/libgone.so.1 libgone.so.1
library lib/libpre.so libpre.so gone/libgone.so.1
rm -r gone
program .p-wrapped
binary_wrapper bin/p "$PWD/.p-wrapped" --inherit-argv0 --prefix LD_PRELOAD : "$PWD/lib/libpre.so"
start bin/p
