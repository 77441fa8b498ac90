# The same file for a musl program: musl does not look at the OS ABI.
on musl library odd/libx.so.1 libx.so.1
patch odd/libx.so.1 7 '\11'
on musl program p odd/libx.so.1 -Wl,-rpath,'$ORIGIN/odd'
start ./p
