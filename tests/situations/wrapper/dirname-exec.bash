# exec "$(dirname "$0")/../libexec/p": the program behind it runs a stub.
host
stub libexec/stubs/libcuda.so.1
cuda_program libexec/p libexec/stubs/libcuda.so.1 '-Wl,-rpath,$ORIGIN/stubs'
executable bin/p <<'SH'
#!/bin/sh
exec "$(dirname "$0")/../libexec/p" "$@"
SH
start bin/p
