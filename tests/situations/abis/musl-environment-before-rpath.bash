# musl searches LD_LIBRARY_PATH before DT_RPATH; glibc has it the other way round.
on musl library lib/libx.so.1 libx.so.1
on musl library env/libx.so.1 libx.so.1
on musl program p lib/libx.so.1 -Wl,--disable-new-dtags,-rpath,'$ORIGIN/lib'
LD_LIBRARY_PATH=$PWD/env start ./p
