# glibc 2.41 searches neither tls nor x86_64: the library there is missing.
glibc trixie
library lib/tls/x86_64/libm2.so.1 libm2.so.1
program p lib/tls/x86_64/libm2.so.1 "${with_glibc[@]}" -Wl,-rpath,'$ORIGIN/lib'
start ./p
