# musl: the preloaded library needs what is not there, which ends the start here as well.
on musl library gone/libgone.so.1 libgone.so.1
on musl library lib/libpre.so libpre.so gone/libgone.so.1
rm -r gone
on musl program p
LD_PRELOAD=$PWD/lib/libpre.so start ./p
