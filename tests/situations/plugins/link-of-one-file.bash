# Two names of one file by a symbolic link: the inode is the same, so it is loaded once.
library a/libx.so ''
mkdir b; ln -s ../a/libx.so b/liby.so
opener p libx.so liby.so -- '-Wl,-rpath,$ORIGIN/a:$ORIGIN/b'
start ./p
