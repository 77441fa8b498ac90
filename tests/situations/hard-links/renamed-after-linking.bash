# The file was renamed after linking; its soname still has the old name, the program needs the old name by a link.
library lib/libold.so.1 libold.so.1
library plug.so '' lib/libold.so.1
opener p ./lib/libnew.so.1 ./plug.so
mv lib/libold.so.1 lib/libnew.so.1
start ./p
