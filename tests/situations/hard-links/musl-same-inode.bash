# musl: two needed names are one inode in two directories; the second's own run path never counts.
on musl library a/libd.so.1 libd.so.1
on musl library a/libx.so.1 '' a/libd.so.1 -Wl,-rpath,'$ORIGIN'
mkdir b && ln a/libx.so.1 b/liby.so.1
on musl program p -La -Lb -l:libx.so.1 -l:liby.so.1 -Wl,-rpath,'$ORIGIN/a:$ORIGIN/b'
start ./p
