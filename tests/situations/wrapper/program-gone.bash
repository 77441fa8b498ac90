# What the wrapper starts is not there.
program .p-wrapped
wrapper bin/p "$PWD/.p-wrapped" --set LD_LIBRARY_PATH "$PWD/lib"
rm .p-wrapped
start bin/p
