# The same link, and a script that does not resolve it: it looks beside the link and finds nothing to run.
program opt/libexec/p
executable opt/bin/p <<'SH'
#!/bin/bash
exec "$(dirname "$0")/../libexec/p" "$@"
SH
mkdir bin; ln -s ../opt/bin/p bin/p
start bin/p
