# uv links a wheel's files from its cache into each environment: the second one lacks the wheel with the toolkit.
library one/nvidia/lib/libcudart.so.12 libcudart.so.12
library one/torch/lib/libtorch_cuda.so libtorch_cuda.so one/nvidia/lib/libcudart.so.12 -Wl,-rpath,'$ORIGIN/../../nvidia/lib'
mkdir -p two/torch/lib && ln one/torch/lib/libtorch_cuda.so two/torch/lib/libtorch_cuda.so
opener two/p "$PWD/two/torch/lib/libtorch_cuda.so"
opener one/p "$PWD/one/torch/lib/libtorch_cuda.so"
start ./two/p
