# The loader expands $ORIGIN in LD_LIBRARY_PATH too: it is the program's directory.
library libexec/lib/libx.so.1 libx.so.1
program libexec/p libexec/lib/libx.so.1
wrapper bin/p "$PWD/libexec/p" --set LD_LIBRARY_PATH '$ORIGIN/lib'
start bin/p
