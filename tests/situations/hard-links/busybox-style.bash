# One program under names in bin and in sbin/deep, with a relative run path that fits the first only.
library lib/libbox.so.1 libbox.so.1
program bin/box lib/libbox.so.1 -Wl,-rpath,'$ORIGIN/../lib'
mkdir -p sbin/deep && ln bin/box sbin/deep/box
start ./sbin/deep/box
