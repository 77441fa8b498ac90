# A plugin's note names its dependency; the plugin was moved with its directory, its $ORIGIN run path followed, the note did not.
library plugins/lib/libdep.so.1 libdep.so.1
library plugins/plug.so '' plugins/lib/libdep.so.1 "$(note libdep.so.1 "=$PWD/before/lib/libdep.so.1")" -Wl,-rpath,'$ORIGIN/lib'
opener p ./plugins/plug.so
start ./p
