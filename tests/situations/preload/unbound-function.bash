# The preloaded library calls a function that nothing defines, late bound and never called: the program runs.
with 'int absent(void); int g(void) { return absent(); }' library lib/libpre.so libpre.so
program p
LD_PRELOAD=$PWD/lib/libpre.so start ./p
