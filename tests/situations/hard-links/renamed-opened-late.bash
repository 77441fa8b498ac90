# The plugin is opened before the renamed library: it fails, and works when it is opened again afterwards.
library lib/libold.so.1 libold.so.1
library plug.so '' lib/libold.so.1
opener p ./plug.so ./lib/libnew.so.1 ./plug.so
mv lib/libold.so.1 lib/libnew.so.1
start ./p
