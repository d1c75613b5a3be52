// Computes the softmax of rows of up to 4096 elements by a handwritten kernel, in which 128 threads hold a
// row in registers.
#include "block_reduce.cuh"

extern "C" __global__ void __launch_bounds__(128, 1)
    softmax(const float* __restrict__ x, float* __restrict__ y, long long rows, int columns) {
  __shared__ __align__(16) float maxima[4], sums[4];
  const float* row = x + blockIdx.x * static_cast<long long>(columns);
  float* out = y + blockIdx.x * static_cast<long long>(columns);
  float4 v[8];
#pragma unroll
  for (int part = 0; part < 8; ++part) {
    v[part] = load4(row, part * 512 + threadIdx.x * 4, columns, -INFINITY);
  }
  float most = -INFINITY;
#pragma unroll
  for (int part = 0; part < 8; ++part)
    most = fmaxf(most, fmaxf(fmaxf(v[part].x, v[part].y), fmaxf(v[part].z, v[part].w)));
  most = block_reduce(most, maxima, Max());
  float sum = 0;
#pragma unroll
  for (int part = 0; part < 8; ++part) {
    v[part] = make_float4(expf(v[part].x - most), expf(v[part].y - most), expf(v[part].z - most),
                          expf(v[part].w - most));
    sum += v[part].x + v[part].y + v[part].z + v[part].w;
  }
  sum = block_reduce(sum, sums, Add());
#pragma unroll
  for (int part = 0; part < 8; ++part) {
    store4(out, part * 512 + threadIdx.x * 4, columns,
           make_float4(v[part].x / sum, v[part].y / sum, v[part].z / sum, v[part].w / sum));
  }
}
