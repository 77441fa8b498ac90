# LD_AUDIT of a module that works: it has a namespace of its own, and its copy of libx is not the program's.
library a/libx.so.1 libx.so.1
library b/libx.so.1 libx.so.1 -lm
with 'unsigned la_version(unsigned v) { return v; }' library lib/libaudit.so libaudit.so b/libx.so.1 '-Wl,-rpath,$ORIGIN/../b'
program p a/libx.so.1 '-Wl,-rpath,$ORIGIN/a'
LD_AUDIT=$PWD/lib/libaudit.so start ./p
