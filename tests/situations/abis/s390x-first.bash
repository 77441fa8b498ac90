# The first copy is for s390x: another machine and the other byte order, which Debian's glibc passes over and the original does not.
on s390x library s390x/libx.so.1 libx.so.1
library lib/libx.so.1 libx.so.1
program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/s390x:$ORIGIN/lib'
start ./p
