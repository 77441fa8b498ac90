# The preloaded library's need is not found by its own run path; the program needs the same one, is asked first, and has it.
library lib/libdep.so.1 libdep.so.1
library pre/libpre.so libpre.so lib/libdep.so.1
program p lib/libdep.so.1 '-Wl,-rpath,$ORIGIN/lib'
LD_PRELOAD=$PWD/pre/libpre.so start ./p
