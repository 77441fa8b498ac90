# Nothing in the program's run path has libx.so.1; a preloaded file with that soname, under another name, does for it.
library pre/x-replacement.so libx.so.1
library gone/libx.so.1 libx.so.1
program p gone/libx.so.1 '-Wl,-rpath,$ORIGIN/gone'
rm -r gone
LD_PRELOAD=$PWD/pre/x-replacement.so start ./p
