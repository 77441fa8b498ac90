# An arm64 program whose first directory has the x86-64 copy.
library x86/libx.so.1 libx.so.1
on arm64 library lib/libx.so.1 libx.so.1
on arm64 program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/x86:$ORIGIN/lib'
start qemu-aarch64 ./p
