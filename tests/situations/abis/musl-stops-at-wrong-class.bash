# An i386 copy in the first directory: what glibc passes over ends musl's search.
on i386 library lib32/libx.so.1 libx.so.1
on musl library lib64/libx.so.1 libx.so.1
on musl program p lib64/libx.so.1 -Wl,-rpath,'$ORIGIN/lib32:$ORIGIN/lib64'
start ./p
