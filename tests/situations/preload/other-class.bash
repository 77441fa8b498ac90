# LD_PRELOAD of a library for i386 in a 64-bit program is passed over with a message.
on i386 library pre/libpre.so libpre.so
program p
LD_PRELOAD=$PWD/pre/libpre.so start ./p
