# A call of the CUDA runtime, cudaMalloc, in an extension that does not need libcudart.
with 'int cudaMalloc(void); int g(void) { return cudaMalloc(); }' extension ext.so
python p 'import ext'
start ./p
