// Normalises rows of up to 4096 elements by a handwritten kernel, in which 128 threads hold a row in
// registers.
#include "block_reduce.cuh"

extern "C" __global__ void __launch_bounds__(128, 1)
    layernorm(const float* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ beta,
              float* __restrict__ y, long long rows, int columns, float eps) {
  __shared__ __align__(16) float sums[4], squares[4];
  const float* row = x + blockIdx.x * static_cast<long long>(columns);
  float* out = y + blockIdx.x * static_cast<long long>(columns);
  float4 v[8];
  float sum = 0;
#pragma unroll
  for (int part = 0; part < 8; ++part) {
    v[part] = load4(row, part * 512 + threadIdx.x * 4, columns, 0);
    sum += v[part].x + v[part].y + v[part].z + v[part].w;
  }
  const float mean = block_reduce(sum, sums, Add()) / columns;
  float square = 0;
#pragma unroll
  for (int part = 0; part < 8; ++part) {
    const int i = part * 512 + threadIdx.x * 4;
    v[part] = make_float4(i < columns ? v[part].x - mean : 0, i + 1 < columns ? v[part].y - mean : 0,
                          i + 2 < columns ? v[part].z - mean : 0, i + 3 < columns ? v[part].w - mean : 0);
    square += v[part].x * v[part].x + v[part].y * v[part].y + v[part].z * v[part].z + v[part].w * v[part].w;
  }
  const float scale = rsqrtf(block_reduce(square, squares, Add()) / columns + eps);
#pragma unroll
  for (int part = 0; part < 8; ++part) {
    const int i = part * 512 + threadIdx.x * 4;
    const float4 g = load4(gamma, i, columns, 0), b = load4(beta, i, columns, 0);
    store4(out, i, columns,
           make_float4(v[part].x * scale * g.x + b.x, v[part].y * scale * g.y + b.y, v[part].z * scale * g.z + b.z,
                       v[part].w * scale * g.w + b.w));
  }
}
