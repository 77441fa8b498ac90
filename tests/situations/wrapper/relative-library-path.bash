# LD_LIBRARY_PATH=lib means the working directory's lib, from where the wrapper happens to be started.
library lib/libx.so.1 libx.so.1
program p.bin lib/libx.so.1
wrapper bin/p "$PWD/p.bin" --set LD_LIBRARY_PATH lib
start bin/p
