# A bare name in LD_PRELOAD is searched as the program's own needs are: its DT_RUNPATH has it.
library lib/libpre.so libpre.so
program p '-Wl,-rpath,$ORIGIN/lib'
LD_PRELOAD=libpre.so start ./p
