# makeBinaryWrapper's compiled wrapper gives the library's directory: the wrapper is what is started, and it needs nothing itself.
library lib/libx.so.1 libx.so.1
program .p-wrapped lib/libx.so.1
binary_wrapper bin/p "$PWD/.p-wrapped" --inherit-argv0 --prefix LD_LIBRARY_PATH : "$PWD/lib"
start bin/p
