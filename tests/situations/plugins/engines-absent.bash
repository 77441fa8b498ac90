# cuDNN opens its engines by name; a wheel without one of them cannot use it, and the program goes on without.
library cudnn/libcudnn_ops.so.9 libcudnn_ops.so.9
opener p libcudnn_ops.so.9 libcudnn_engines_tensor_ir.so.9 -- '-Wl,-rpath,$ORIGIN/cudnn'
start ./p
