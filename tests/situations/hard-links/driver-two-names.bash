# The driver's libcuda.so and libcuda.so.1 are hard links, not symbolic ones; a program opens both names.
driver /run/opengl-driver/lib/libcuda.so.1 0
ln /run/opengl-driver/lib/libcuda.so.1 /run/opengl-driver/lib/libcuda.so
opener p --entry cuInit libcuda.so libcuda.so.1 -- -Wl,-rpath,/run/opengl-driver/lib
start ./p
