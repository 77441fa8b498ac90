# NVIDIA/cudnn-frontend 211: libnvrtc of CUDA 13 and libnvJitLink of 12 in one process.
host
library lib/libnvrtc.so.13 libnvrtc.so.13
library lib/libnvJitLink.so.12 libnvJitLink.so.12
program p lib/libnvrtc.so.13 lib/libnvJitLink.so.12 '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
because='libnvrtc.so.13 libnvJitLink.so.12' start ./p
