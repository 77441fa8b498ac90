# A relocatable object under the library's name (a failed install step): right machine, wrong type.
library lib/libx.so.1 libx.so.1
echo 'int f(void) { return 0; }' >f.c && mkdir odd && gcc -c f.c -o odd/libx.so.1
program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/odd:$ORIGIN/lib'
start ./p
