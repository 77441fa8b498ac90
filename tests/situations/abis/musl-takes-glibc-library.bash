# A library that was built for glibc needs libc.so.6, a name that musl takes for itself: the program starts.
library lib/libx.so.1 libx.so.1
on musl program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/lib'
start ./p
