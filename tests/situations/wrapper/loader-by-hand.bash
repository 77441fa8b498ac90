# The script calls the loader with --library-path, as relocatable bundles do: neither interpreter nor run path count.
library lib/libx.so.1 libx.so.1
program p.bin lib/libx.so.1
executable bin/p <<SH
#!/bin/sh
exec $(readelf -lW p.bin | sed -n 's/.*interpreter: \(.*\)]/\1/p') --library-path $PWD/lib $PWD/p.bin "\$@"
SH
start bin/p
