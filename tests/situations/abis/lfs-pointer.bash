# A checkout without Git LFS: the first copy is a pointer of three lines.
library real/libx.so.1 libx.so.1
program p real/libx.so.1 -Wl,-rpath,'$ORIGIN/lib:$ORIGIN/real'
mkdir lib && lfs_pointer >lib/libx.so.1
start ./p
