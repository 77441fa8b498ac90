# The preloaded library refers to data that nothing defines: the start ends.
with 'extern int absent; int g(void) { return absent; }' library lib/libpre.so libpre.so
program p
LD_PRELOAD=$PWD/lib/libpre.so start ./p
