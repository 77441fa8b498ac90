# A library that was linked with -z nodlopen can be needed, and not opened.
library plug/libplug.so libplug.so -Wl,-z,nodlopen
opener p libplug.so -- '-Wl,-rpath,$ORIGIN/plug'
start ./p
