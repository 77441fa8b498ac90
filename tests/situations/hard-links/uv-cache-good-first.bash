# The other order: the inode is there already, so the second name opens too, although its own directory lacks the dependency.
library one/nvidia/lib/libcudart.so.12 libcudart.so.12
library one/torch/lib/libtorch_cuda.so libtorch_cuda.so one/nvidia/lib/libcudart.so.12 -Wl,-rpath,'$ORIGIN/../../nvidia/lib'
mkdir -p two/torch/lib && ln one/torch/lib/libtorch_cuda.so two/torch/lib/libtorch_cuda.so
opener p ./one/torch/lib/libtorch_cuda.so ./two/torch/lib/libtorch_cuda.so
start ./p
