# A preloaded file without a soname answers to no name but its path's: the program still lacks libx.so.1.
library pre/libx.so.1 ''
library gone/libx.so.1 libx.so.1
program p gone/libx.so.1 '-Wl,-rpath,$ORIGIN/gone'
rm -r gone
LD_PRELOAD=$PWD/pre/libx.so.1 start ./p
