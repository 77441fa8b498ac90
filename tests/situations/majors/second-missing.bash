# The second runtime is needed and not there: the process does not start, and what is missing comes first.
host
library lib/libcudart.so.12 libcudart.so.12
library gone/libcudart.so.13 libcudart.so.13
library lib/libuse.so libuse.so gone/libcudart.so.13
rm -r gone
program p lib/libcudart.so.12 lib/libuse.so '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
start ./p
