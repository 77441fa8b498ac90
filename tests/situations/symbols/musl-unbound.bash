# musl binds everything at once: a function that nobody calls and nothing defines ends the start.
on musl with 'int absent(void); int g(void) { return absent(); }' library lib/libg.so.1 libg.so.1
on musl program p lib/libg.so.1 "-Wl,-rpath,$PWD/lib"
start ./p
