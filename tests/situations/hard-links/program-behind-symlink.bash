# The program is started through a link: its $ORIGIN is that of the file it leads to.
library libexec/lib/libk.so.1 libk.so.1
program libexec/p libexec/lib/libk.so.1 -Wl,-rpath,'$ORIGIN/lib'
mkdir bin && ln -s ../libexec/p bin/p
start ./bin/p
