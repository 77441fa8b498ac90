# A library of a musl program opens a name that its own run path has and the program's has not.
because=libplug.so
on musl library deep/libplug.so libplug.so
on musl opening lib/libx.so.1 libx.so.1 libplug.so -- -Wl,-rpath,'$ORIGIN/../deep'
on musl program p lib/libx.so.1 -Wl,-rpath,'$ORIGIN/lib'
start ./p
