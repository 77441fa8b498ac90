# LD_PRELOAD of a library that is cut off within its header is passed over; its name is not taken.
library lib/libx.so.1 libx.so.1
mkdir pre; head -c 40 lib/libx.so.1 >pre/libx.so.1
program p lib/libx.so.1 '-Wl,-rpath,$ORIGIN/lib'
LD_PRELOAD=$PWD/pre/libx.so.1 start ./p
