# LD_HWCAP_MASK=0 takes the processor's features away from the old directories, here the x86_64 after the platform's name, but not tls.
library lib/libm2.so.1 libm2.so.1
library lib/tls/libm2.so.1 libm2.so.1
for platform in x86_64 haswell xeon_phi; do library lib/tls/$platform/x86_64/libm2.so.1 libm2.so.1; done
program p lib/libm2.so.1 -Wl,-rpath,'$ORIGIN/lib'
LD_HWCAP_MASK=0 start ./p
