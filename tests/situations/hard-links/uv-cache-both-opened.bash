# A process opens the linked library under the name that lacks its dependency, fails, and then under the one that has it.
library one/nvidia/lib/libcudart.so.12 libcudart.so.12
library one/torch/lib/libtorch_cuda.so libtorch_cuda.so one/nvidia/lib/libcudart.so.12 -Wl,-rpath,'$ORIGIN/../../nvidia/lib'
mkdir -p two/torch/lib && ln one/torch/lib/libtorch_cuda.so two/torch/lib/libtorch_cuda.so
opener p ./two/torch/lib/libtorch_cuda.so ./one/torch/lib/libtorch_cuda.so
start ./p
