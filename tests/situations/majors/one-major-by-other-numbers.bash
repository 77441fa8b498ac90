# CUDA 12's own libraries have other majors: libcufft 11, libcurand 10, libcusolver 11. Nothing is mixed here.
host
library lib/libcudart.so.12 libcudart.so.12
library lib/libcufft.so.11 libcufft.so.11
library lib/libcurand.so.10 libcurand.so.10
library lib/libcusolver.so.11 libcusolver.so.11
library lib/libnvJitLink.so.12 libnvJitLink.so.12
program p lib/libcudart.so.12 lib/libcufft.so.11 lib/libcurand.so.10 lib/libcusolver.so.11 lib/libnvJitLink.so.12 '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
start ./p
