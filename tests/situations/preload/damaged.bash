# LD_PRELOAD of a file that is no library is passed over with a message.
mkdir pre; head -c 200 /dev/zero | tr '\0' x >pre/libpre.so
program p
LD_PRELOAD=$PWD/pre/libpre.so start ./p
