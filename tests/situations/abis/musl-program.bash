# A musl program with the run path of its libraries.
on musl library lib/libx.so.1 libx.so.1
on musl program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/lib'
start ./p
