# musl searches the run paths of all that brought an object in, DT_RUNPATH too: this chain works, with glibc it would not.
on musl library lib/libdep.so.1 libdep.so.1
on musl library lib/libx.so.1 libx.so.1 lib/libdep.so.1
on musl program p lib/libx.so.1 -Wl,--enable-new-dtags,-rpath,'$ORIGIN/lib'
start ./p
