# An i386 program: its loader of glibc 2.36 knows no levels, but i686 and sse2 of old.
on i386 library lib/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
on i386 library lib/sse2/libm2.so.1 libm2.so.1
on i386 library lib/i686/sse2/libm2.so.1 libm2.so.1
on i386 program p lib/sse2/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
start ./p
