# --set-default yields to what the user has set, and that leads to a copy that needs what is not there.
library gone/libgone.so.1 libgone.so.1
library good/libx.so.1 libx.so.1
library bad/libx.so.1 libx.so.1 gone/libgone.so.1
rm -r gone
program .p-wrapped good/libx.so.1
binary_wrapper bin/p "$PWD/.p-wrapped" --set-default LD_LIBRARY_PATH "$PWD/good"
LD_LIBRARY_PATH=$PWD/bad start bin/p
