# ctypes opens a library by its path, as Python packages do with their CUDA wheels, so that the next one finds it by its soname.
library nvidia/lib/libdep.so.1 libdep.so.1
library plug/libplug.so libplug.so nvidia/lib/libdep.so.1
python p "ctypes.CDLL(\"$PWD/nvidia/lib/libdep.so.1\", ctypes.RTLD_GLOBAL)" "ctypes.CDLL(\"$PWD/plug/libplug.so\")"
start ./p
