# exec -a changes the name that the program sees and not its $ORIGIN, which is the directory of the file that runs.
library libexec/lib/libx.so.1 libx.so.1
library bin/lib/libx.so.1 libx.so.1 -lm
program libexec/.p-wrapped libexec/lib/libx.so.1 '-Wl,-rpath,$ORIGIN/lib'
wrapper bin/p "$PWD/libexec/.p-wrapped" --argv0 "$PWD/bin/p"
start bin/p
