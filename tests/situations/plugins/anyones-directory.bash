# The only file of that name lies in a directory that anyone can write to: no remedy may lead there.
library anyone/libx.so.1 libx.so.1
program app/p anyone/libx.so.1
chmod 1777 anyone
start app/p
