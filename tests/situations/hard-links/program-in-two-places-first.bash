# The same pair, started under the name that works.
library v1/lib/libk.so.1 libk.so.1
program v1/p v1/lib/libk.so.1 -Wl,-rpath,'$ORIGIN/lib'
mkdir v2 && ln v1/p v2/p
start ./v1/p
