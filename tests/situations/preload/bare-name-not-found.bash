# A bare name in LD_PRELOAD that nothing has is passed over.
library lib/libpre.so libpre.so
program p
LD_PRELOAD=libpre.so start ./p
