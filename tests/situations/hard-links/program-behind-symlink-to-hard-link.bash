# A link leads to the second name of a program, beside which the library is missing.
library v1/lib/libk.so.1 libk.so.1
program v1/p v1/lib/libk.so.1 -Wl,-rpath,'$ORIGIN/lib'
mkdir v2 bin && ln v1/p v2/p && ln -s ../v2/p bin/p
start ./bin/p
