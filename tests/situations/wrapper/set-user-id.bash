# The wrapper's directory is what finds the library, but the program is set-user-ID: the loader ignores the variable.
users
library lib/libx.so.1 libx.so.1
program p.bin lib/libx.so.1
chmod u+s p.bin
wrapper bin/p "$PWD/p.bin" --set LD_LIBRARY_PATH "$PWD/lib"
asked=bin/p start "${as_user[@]}" bin/p
