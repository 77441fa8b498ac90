# The same for a plugin: the open fails, the program goes on to the next name.
library plugins/b.so ''
lfs_pointer >plugins/a.so
opener p ./plugins/a.so ./plugins/b.so
start ./p
