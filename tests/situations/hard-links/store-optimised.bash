# Two store paths share a library's inode (nix-store --optimise); each has its own dependency beside it, the second an unusable one.
on i386 library b-1.0/lib/libd.so.1 libd.so.1
library a-1.0/lib/libd.so.1 libd.so.1
library a-1.0/lib/libx.so.1 libx.so.1 a-1.0/lib/libd.so.1 -Wl,-rpath,'$ORIGIN'
ln a-1.0/lib/libx.so.1 b-1.0/lib/libx.so.1
mkdir .links && ln a-1.0/lib/libx.so.1 .links/0pz2q
program p a-1.0/lib/libx.so.1 -Wl,--enable-new-dtags,-rpath,'$ORIGIN/b-1.0/lib:$ORIGIN/a-1.0/lib'
start ./p
