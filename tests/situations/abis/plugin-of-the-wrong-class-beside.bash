# The program tries its plugins in order, the first is for i386: that open fails and leaves nothing, the second works.
on i386 library plugins/a.so ''
library plugins/b.so ''
opener p ./plugins/a.so ./plugins/b.so
start ./p
