// Accesses four elements that may exceed a row, and reduces over a block of 128 threads.
#pragma once

__device__ inline float4 load4(const float* row, int i, int columns, float other) {
  if (i + 3 < columns) return *reinterpret_cast<const float4*>(row + i);
  return make_float4(i < columns ? row[i] : other, i + 1 < columns ? row[i + 1] : other,
                     i + 2 < columns ? row[i + 2] : other, i + 3 < columns ? row[i + 3] : other);
}

__device__ inline void store4(float* row, int i, int columns, float4 v) {
  if (i + 3 < columns) {
    *reinterpret_cast<float4*>(row + i) = v;
    return;
  }
  if (i < columns) row[i] = v.x;
  if (i + 1 < columns) row[i + 1] = v.y;
  if (i + 2 < columns) row[i + 2] = v.z;
}

struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Max {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

template <class Combine> __device__ float block_reduce(float v, float* shared, Combine combine) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2)
    v = combine(v, __shfl_xor_sync(0xffffffff, v, step));
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
  __syncthreads();
  const float4 all = *reinterpret_cast<const float4*>(shared);
  return combine(combine(all.x, all.y), combine(all.z, all.w));
}
