# A program with the loader of glibc 2.31: it knows no glibc-hwcaps, the library is missing.
glibc bullseye
library lib/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
program p lib/glibc-hwcaps/x86-64-v2/libm2.so.1 "${with_glibc[@]}" -Wl,-rpath,'$ORIGIN/lib'
start ./p
