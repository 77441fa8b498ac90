# glibc 2.31 takes the plain copy where newer ones take the broken one in x86-64-v2.
glibc bullseye
library lib/libm2.so.1 libm2.so.1
mkdir -p lib/glibc-hwcaps/x86-64-v2 && : >lib/glibc-hwcaps/x86-64-v2/libm2.so.1
program p lib/libm2.so.1 "${with_glibc[@]}" -Wl,-rpath,'$ORIGIN/lib'
start ./p
