# LD_HWCAP_MASK=0 concerns the old directories (tls, haswell) only: the level is searched all the same.
library lib/libm2.so.1 libm2.so.1
library lib/glibc-hwcaps/x86-64-v2/libm2.so.1 libm2.so.1
program p lib/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
LD_HWCAP_MASK=0 start ./p
