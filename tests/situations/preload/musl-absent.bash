# musl passes over an absent library without a word.
on musl library lib/libx.so.1 libx.so.1
on musl program p lib/libx.so.1 "-Wl,-rpath,$PWD/lib"
LD_PRELOAD=$PWD/lib/libgone.so start ./p
