# GLIBC_TUNABLES takes AVX2 away: x86-64-v3 is no longer searched, the broken copy there does no harm.
processor x86-64-v3
library lib/libm2.so.1 libm2.so.1
mkdir -p lib/glibc-hwcaps/x86-64-v3 && : >lib/glibc-hwcaps/x86-64-v3/libm2.so.1
program p lib/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2 start ./p
