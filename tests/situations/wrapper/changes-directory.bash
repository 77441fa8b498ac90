# The script changes to its own directory first, so that a relative entry means another place than the caller's.
library app/lib/libx.so.1 libx.so.1
library lib/libx.so.1 libx.so.1 -lm
program app/p.bin app/lib/libx.so.1
executable app/p <<'SH'
#!/bin/sh
cd "$(dirname "$0")" || exit
LD_LIBRARY_PATH=lib exec ./p.bin "$@"
SH
start app/p
