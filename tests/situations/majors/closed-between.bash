# The first runtime is closed before the second is opened: they are never in the process together.
host
library lib/libcudart.so.12 libcudart.so.12
library lib/libcudart.so.13 libcudart.so.13
opener p --close libcudart.so.12 --close libcudart.so.13 -- '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
start ./p
