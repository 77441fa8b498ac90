# readlink -f "$0", and the script is started through a link from elsewhere: its place is where the file is.
library opt/lib/libx.so.1 libx.so.1
program opt/libexec/p opt/lib/libx.so.1
executable opt/bin/p <<'SH'
#!/bin/bash
here=$(dirname "$(readlink -f "$0")")
export LD_LIBRARY_PATH=$here/../lib
exec "$here/../libexec/p" "$@"
SH
mkdir bin; ln -s ../opt/bin/p bin/p
start bin/p
