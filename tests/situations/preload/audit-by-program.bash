# The program names its auditing module itself (DT_AUDIT), and it is not there: passed over.
library lib/libx.so.1 libx.so.1
program p lib/libx.so.1 '-Wl,-rpath,$ORIGIN/lib' "-Wl,--audit,$PWD/lib/libgone.so"
start ./p
