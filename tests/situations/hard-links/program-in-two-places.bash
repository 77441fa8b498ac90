# One program under two names: beside the first is the library that $ORIGIN finds, beside the second is none.
library v1/lib/libk.so.1 libk.so.1
program v1/p v1/lib/libk.so.1 -Wl,-rpath,'$ORIGIN/lib'
mkdir v2 && ln v1/p v2/p
start ./v2/p
