# DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)", as vendors' start scripts have it; their stub directory comes first.
host
stub app/lib/stubs/libcuda.so.1
cuda_program app/p.bin app/lib/stubs/libcuda.so.1 -Wl,-rpath,/run/opengl-driver/lib
executable app/p <<'SH'
#!/usr/bin/env bash
DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
export LD_LIBRARY_PATH="$DIR/lib/stubs:$LD_LIBRARY_PATH"
"$DIR/p.bin" "$@"
SH
start app/p
