# Two copies (two inodes) of one library opened by path: two objects in the process, and the second lacks its dependency.
library one/dep/libd.so.1 libd.so.1
library one/liba.so liba.so one/dep/libd.so.1 -Wl,-rpath,'$ORIGIN/dep'
mkdir two && cp one/liba.so two/liba.so
opener p ./two/liba.so ./one/liba.so ./two/liba.so
start ./p
