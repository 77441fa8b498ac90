# Both names start, with different libraries: beside the second name is another libk, which needs something that is gone.
library gone/libgone.so.1 libgone.so.1
library a/lib/libk.so.1 libk.so.1
library b/lib/libk.so.1 libk.so.1 gone/libgone.so.1
rm gone/libgone.so.1
program a/p a/lib/libk.so.1 -Wl,-rpath,'$ORIGIN/lib'
ln a/p b/p
start ./b/p
