# An s390x program whose first directory has the x86-64 copy: machine and byte order differ.
library x86/libx.so.1 libx.so.1
on s390x library lib/libx.so.1 libx.so.1
on s390x program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/x86:$ORIGIN/lib'
start qemu-s390x ./p
