# Two modules of Python's, each with its own runtime by its own run path.
host
library cu12/libcudart.so.12 libcudart.so.12
library cu13/libcudart.so.13 libcudart.so.13
extension one.so cu12/libcudart.so.12 '-Wl,-rpath,$ORIGIN/cu12'
extension two.so cu13/libcudart.so.13 '-Wl,-rpath,$ORIGIN/cu13'
python p 'import one' 'import two'
because='libcudart.so.12 libcudart.so.13' start ./p
