# A musl program with a note: musl reads none; its run path lacks the library.
on musl library lib/libx.so.1 libx.so.1
on musl program p lib/libx.so.1 "$(note libx.so.1 "=$PWD/lib/libx.so.1")" -Wl,-rpath,'$ORIGIN/other'
start ./p
