# A script of Python's opens one library of each major, as two wheels do that were installed into one environment.
host
library nvidia/cu12/libcudart.so.12 libcudart.so.12
library nvidia/cu13/libcudart.so.13 libcudart.so.13
python p "ctypes.CDLL(\"$PWD/nvidia/cu12/libcudart.so.12\")" "ctypes.CDLL(\"$PWD/nvidia/cu13/libcudart.so.13\")"
because='libcudart.so.12 libcudart.so.13' start ./p
