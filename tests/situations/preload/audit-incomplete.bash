# LD_AUDIT of a module that needs what is not there: unlike a preloaded library, it is passed over.
library gone/libgone.so.1 libgone.so.1
with 'unsigned la_version(unsigned v) { return v; }' library lib/libaudit.so libaudit.so gone/libgone.so.1
rm -r gone
program p
LD_AUDIT=$PWD/lib/libaudit.so start ./p
