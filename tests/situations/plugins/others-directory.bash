# The library is missing; beside the program lie a directory of somebody else's with one of that name, and its own: only its own will do.
users
library app/lib/libx.so.1 libx.so.1
library aaa/lib/libx.so.1 libx.so.1 -lm
program app/p app/lib/libx.so.1
chown -R 65534 aaa
start app/p
