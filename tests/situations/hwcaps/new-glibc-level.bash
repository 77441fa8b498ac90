# glibc 2.41 and a level: tls is not looked at, x86-64-v2 is.
glibc trixie
library lib/tls/libm2.so.1 libm2.so.1
library lib/libm2.so.1 libm2.so.1
library lib/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
program p lib/libm2.so.1 "${with_glibc[@]}" -Wl,-rpath,'$ORIGIN/lib'
start ./p
