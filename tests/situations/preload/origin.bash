# The loader expands $ORIGIN in LD_PRELOAD by the program's directory.
library bin/pre/libpre.so libpre.so
program bin/p
LD_PRELOAD='$ORIGIN/pre/libpre.so' start bin/p
