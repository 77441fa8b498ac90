# The same files in the other order: liby, which needs libx.so.2, is needed by the first library; by then nothing answers to it.
library lib/libx.so.2 libx.so.2
library lib/liby.so.1 liby.so.1 lib/libx.so.2
library lib/libx.so.1 libx.so.1
opener p ./lib/liby.so.1 ./lib/libx.so.1 ./lib/liby.so.1
mv lib/libx.so.2 lib/libx.so.1
start ./p
