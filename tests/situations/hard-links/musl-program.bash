# musl: one program under two names, started under the one that has no library beside it.
on musl library v1/lib/libk.so.1 libk.so.1
on musl program v1/p v1/lib/libk.so.1 -Wl,-rpath,'$ORIGIN/lib'
mkdir v2 && ln v1/p v2/p
start ./v2/p
