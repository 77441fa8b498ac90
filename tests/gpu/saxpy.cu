// A program of CUDA's runtime API. nvcc links the runtime statically, and that opens libcuda.so.1 by name: no DT_NEEDED
// shows it. Prints one line and exits with 0 if the GPU computed 2x + y rightly.
#include <cstdio>

__global__ void saxpy(int n, float a, const float *x, float *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

int main() {
  const int n = 1 << 20;
  static float x[n], y[n];
  for (int i = 0; i < n; i++) x[i] = i % 1000, y[i] = i % 7;
  float *dx = nullptr, *dy = nullptr;
  int driver = 0, runtime = 0, wrong = 0;
  cudaError_t e = cudaMalloc(&dx, sizeof x);
  if (e == cudaSuccess) e = cudaMalloc(&dy, sizeof y);
  if (e == cudaSuccess) {
    cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y, sizeof y, cudaMemcpyHostToDevice);
    saxpy<<<(n + 255) / 256, 256>>>(n, 2.0f, dx, dy);
    e = cudaGetLastError();
    if (e == cudaSuccess) e = cudaMemcpy(y, dy, sizeof y, cudaMemcpyDeviceToHost);
  }
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (e != cudaSuccess) {
    printf("cuda=%d (%s) driver=%d runtime=%d\n", e, cudaGetErrorString(e), driver, runtime);
    return 1;
  }
  for (int i = 0; i < n; i++) wrong += y[i] != 2.0f * (i % 1000) + i % 7;
  printf("cuda=0 driver=%d runtime=%d saxpy=%s\n", driver, runtime, wrong ? "wrong" : "ok");
  return wrong != 0;
}
