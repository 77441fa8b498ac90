# --set-default where nothing is set: the program works by it alone.
library good/libx.so.1 libx.so.1
program .p-wrapped good/libx.so.1
binary_wrapper bin/p "$PWD/.p-wrapped" --set-default LD_LIBRARY_PATH "$PWD/good"
start bin/p
