# A bare name in LD_PRELOAD is searched in LD_LIBRARY_PATH too, before the DT_RUNPATH.
library a/libpre.so libpre.so
library b/libpre.so libpre.so -lm
program p '-Wl,-rpath,$ORIGIN/a'
LD_PRELOAD=libpre.so LD_LIBRARY_PATH=$PWD/b start ./p
