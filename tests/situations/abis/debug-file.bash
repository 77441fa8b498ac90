# The detached debug file took the library's name and stands first: header right, contents not there.
library lib/libx.so.1 libx.so.1
mkdir odd && objcopy --only-keep-debug lib/libx.so.1 odd/libx.so.1
program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/odd:$ORIGIN/lib'
start ./p
