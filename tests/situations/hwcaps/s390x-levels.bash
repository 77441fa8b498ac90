# s390x has levels of its own (z13 to z16), and none of x86-64's.
on s390x library lib/libm2.so.1 libm2.so.1
on s390x library lib/glibc-hwcaps/z13/libm2.so.1 libm2.so.1
on s390x library lib/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
on s390x program p lib/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
start qemu-s390x ./p
