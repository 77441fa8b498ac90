# --set LD_AUDIT to a library that is no auditing module (it lacks la_version): it is passed over, and the program runs.
library lib/libaudit.so libaudit.so
library lib/libx.so.1 libx.so.1
program .p-wrapped lib/libx.so.1 '-Wl,-rpath,$ORIGIN/lib'
wrapper bin/p "$PWD/.p-wrapped" --set LD_AUDIT "$PWD/lib/libaudit.so"
start bin/p
