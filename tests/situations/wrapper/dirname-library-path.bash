# The directory of the libraries is told from the script's own place.
library lib/libx.so.1 libx.so.1
program libexec/p lib/libx.so.1
executable bin/p <<'SH'
#!/bin/sh
LD_LIBRARY_PATH="$(dirname "$0")/../lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export LD_LIBRARY_PATH
exec "$(dirname "$0")/../libexec/p" "$@"
SH
start bin/p
