# The program brings nvJitLink 12 and opens libnvrtc.so.13 by name.
host
library lib/libnvrtc.so.13 libnvrtc.so.13
library lib/libnvJitLink.so.12 libnvJitLink.so.12
opener p libnvrtc.so.13 -- lib/libnvJitLink.so.12 '-Wl,-rpath,$ORIGIN/lib:/run/opengl-driver/lib'
because='libnvrtc.so.13 libnvJitLink.so.12' start ./p
