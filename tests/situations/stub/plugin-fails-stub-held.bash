# Two plugins bring the stub; the second fails, but the first holds the stub, so the driver is never looked for.
host
stub lib/stubs/libcuda.so.1
library gone/libgone.so.1 libgone.so.1
library good.so '' lib/stubs/libcuda.so.1 -Wl,-rpath,'$ORIGIN/lib/stubs'
library bad.so '' lib/stubs/libcuda.so.1 gone/libgone.so.1 -Wl,-rpath,/run/opengl-driver/lib
rm gone/libgone.so.1
opener p --entry cuInit ./good.so ./bad.so libcuda.so.1 -- -Wl,-rpath,/run/opengl-driver/lib
start ./p
