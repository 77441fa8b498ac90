# LD_HWCAP_MASK=0 takes the old directories of processors away, but not tls.
library lib/libm2.so.1 libm2.so.1
library lib/x86_64/libm2.so.1 libm2.so.1
library lib/tls/x86_64/libm2.so.1 libm2.so.1
program p lib/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
LD_HWCAP_MASK=0 start ./p
