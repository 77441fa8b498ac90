# glibc 2.31 searches tls/x86_64 first of all, where a stub waits.
glibc bullseye
driver lib/libcuda.so.1 0
stub lib/tls/x86_64/libcuda.so.1
cuda_program p lib/libcuda.so.1 "${with_glibc[@]}" -Wl,-rpath,'$ORIGIN/lib'
start ./p
