// CUDA C++ kernels whose PTX, as nvcc writes it, runs on the emulated GPU (test_nvcc.cpp).
#include <cassert>
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cstdint>
#include <cstdio>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>

namespace cg = cooperative_groups;

__constant__ float scale[4] = {1, 2, 3, 4};
__device__ unsigned blocks_done;

// Sum of a block by shuffles and shared memory, of the grid by an atomic and the last block.
extern "C" __global__ void reduce(const float* x, int n, float* partial, float* total) {
  __shared__ float warps[32];
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    sum += x[i] * scale[i & 3];
  for (int d = 16; d > 0; d >>= 1)
    sum += __shfl_down_sync(0xffffffff, sum, d);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : 0;
    for (int d = 16; d > 0; d >>= 1)
      sum += __shfl_down_sync(0xffffffff, sum, d);
  }
  __shared__ bool last;
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sum;
    __threadfence();
    last = atomicAdd(&blocks_done, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    __threadfence(); // makes the atomic above acquire what the others wrote
    float all = 0;
    for (int i = 0; i < gridDim.x; ++i)
      all += partial[i];
    *total = all;
    blocks_done = 0;
  }
}

extern "C" __global__ void groups(const int* x, int* sums, int* ranks) {
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<8>(block);
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  sums[i] = cg::reduce(tile, x[i], cg::plus<int>()) + tile.shfl_xor(x[i], 3);
  if (x[i] & 1) { // only the active threads
    auto active = cg::coalesced_threads();
    ranks[i] = active.thread_rank() * 100 + active.size();
  } else {
    ranks[i] = -1;
  }
}

extern "C" __global__ void sort(uint32_t* x) { // bitonic, 256 elements a block
  extern __shared__ uint32_t s[];
  const int t = threadIdx.x;
  s[t] = x[blockIdx.x * 256 + t];
  for (int k = 2; k <= 256; k *= 2)
    for (int j = k / 2; j > 0; j /= 2) {
      __syncthreads();
      const int other = t ^ j;
      if (other > t && (s[t] > s[other]) == ((t & k) == 0)) {
        const uint32_t keep = s[t];
        s[t] = s[other];
        s[other] = keep;
      }
    }
  __syncthreads();
  x[blockIdx.x * 256 + t] = s[t];
}

extern "C" __global__ void histogram(const unsigned char* x, int n, unsigned* bins) {
  __shared__ unsigned mine[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x)
    mine[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&mine[x[i]], 1);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x)
    if (mine[i]) atomicAdd(&bins[i], mine[i]);
}

// c = a b for 64 x 64 of f16, a warp for each 16 x 16.
extern "C" __global__ void wmma_matmul(const half* a, const half* b, float* c) {
  using namespace nvcuda::wmma;
  const int warp = threadIdx.x / 32, row = warp / 4 * 16, column = warp % 4 * 16;
  fragment<matrix_a, 16, 16, 16, half, row_major> fa;
  fragment<matrix_b, 16, 16, 16, half, col_major> fb;
  fragment<accumulator, 16, 16, 16, float> fc;
  fill_fragment(fc, 0.5f);
  for (int k = 0; k < 64; k += 16) {
    load_matrix_sync(fa, a + row * 64 + k, 64);
    load_matrix_sync(fb, b + column * 64 + k, 64);
    mma_sync(fc, fa, fb, fc);
  }
  for (int i = 0; i < fc.num_elements; ++i)
    fc.x[i] *= 2;
  store_matrix_sync(c + row * 64 + column, fc, 64, mem_row_major);
}

// y = x + 1 through two stages of shared memory.
extern "C" __global__ void pipelined(const float* x, float* y, int tiles) {
  __shared__ alignas(16) float stage[2][512];
  const int t = threadIdx.x;
  auto fetch = [&](int tile) {
    if (tile < tiles) __pipeline_memcpy_async(&stage[tile % 2][t * 4], x + tile * 512 + t * 4, 16);
    __pipeline_commit();
  };
  fetch(0);
  for (int tile = 0; tile < tiles; ++tile) {
    fetch(tile + 1);
    __pipeline_wait_prior(1);
    __syncthreads();
    for (int k = 0; k < 4; ++k)
      y[tile * 512 + k * 128 + t] = stage[tile % 2][k * 128 + t] + 1;
    __syncthreads();
  }
}

// The same by cuda::pipeline: mbarriers, and bulk copies from sm_90 on.
extern "C" __global__ void library_pipeline(const float* x, float* y, int tiles) {
  __shared__ alignas(16) float stage[2][128];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  for (int fetched = 0, tile = 0; tile < tiles; ++tile) {
    for (; fetched < tiles && fetched < tile + 2; ++fetched) {
      pipe.producer_acquire();
      cuda::memcpy_async(block, stage[fetched % 2], x + fetched * 128, cuda::aligned_size_t<16>(512), pipe);
      pipe.producer_commit();
    }
    pipe.consumer_wait();
    y[tile * 128 + threadIdx.x] = stage[tile % 2][127 - threadIdx.x] + 1;
    pipe.consumer_release();
  }
}

extern "C" __global__ void library_barrier(const float* x, float* y) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  __shared__ alignas(16) float s[128];
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  cuda::memcpy_async(cg::this_thread_block(), s, x, cuda::aligned_size_t<16>(512), bar);
  bar.arrive_and_wait();
  y[threadIdx.x] = s[127 - threadIdx.x];
}

__device__ __noinline__ double horner(const double* c, int n, double x) { return n == 0 ? 0 : c[0] + x * horner(c + 1, n - 1, x); }

extern "C" __global__ void mathematics(const float* x, double* y, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  const float v = x[i];
  const double c[] = {1, 0.5, 0.25, 0.125, v};
  double* to = y + i * 12;
  to[0] = sinf(v * 1000);
  to[1] = expf(v);
  to[2] = logf(fabsf(v) + 1e-3f);
  to[3] = powf(fabsf(v), 1.7f);
  to[4] = v / 3.1f;
  to[5] = sqrt((double)fabsf(v));
  to[6] = exp((double)v);
  to[7] = horner(c, 5, v);
  to[8] = (double)(__half2float(__float2half(v)) + __bfloat162float(__float2bfloat16(v)));
  to[9] = cos((double)v * 1e5);
  to[10] = fmod((double)v * 1e3, 7.0);
  to[11] = tanhf(v) + erff(v) + lgammaf(fabsf(v) + 1) + cbrtf(v);
}

extern "C" __global__ void integers(const int64_t* a, const int64_t* b, int64_t* out) {
  const int i = threadIdx.x;
  const int64_t x = a[i], y = b[i];
  int64_t* to = out + i * 8;
  to[0] = y ? x / y : 0;
  to[1] = y ? x % y : 0;
  to[2] = __mul64hi(x, y);
  to[3] = __popcll(x) * 10000 + __clzll(x) * 100 + __ffsll(x);
  to[4] = (int64_t)__brevll(x);
  to[5] = (int32_t)x / ((int32_t)y | 1);
  to[6] = __byte_perm((unsigned)x, (unsigned)y, 0x3715) + (int64_t)__funnelshift_l((unsigned)x, (unsigned)y, (unsigned)y & 63);
  switch (x & 7) { // a table
  case 0: to[7] = y + 1; break;
  case 1: to[7] = y * 3; break;
  case 2: to[7] = y ^ x; break;
  case 3: to[7] = x - y; break;
  case 4: to[7] = x >> 3; break;
  case 5: to[7] = y << 2; break;
  case 6: to[7] = ~y; break;
  default: to[7] = x & y; break;
  }
}

extern "C" __global__ void wide(const unsigned __int128* a, const unsigned __int128* b, unsigned __int128* out) {
  const int i = threadIdx.x;
  const unsigned __int128 x = a[i], y = b[i];
  unsigned __int128* to = out + i * 6;
  to[0] = x / y;
  to[1] = x % y;
  to[2] = (__int128)x / (__int128)y;
  to[3] = (__int128)x % (__int128)y;
  to[4] = x * y;
  to[5] = x - y;
}

extern "C" __global__ void says(int n) {
  printf("%s %d of %u: %.3f %c %llx%%\n", "thread", threadIdx.x, blockDim.x, threadIdx.x * 0.5, 'a' + threadIdx.x, 0x123456789abcULL);
  assert(threadIdx.x + 1 < n);
}

extern "C" __global__ void races(float* x) { // one thread accesses past the end
  x[threadIdx.x + 1] = 1;
}

// All blocks of a grid in several rounds: each adds the value that its neighbour had in the round before.
extern "C" __global__ void grid_rounds(int* values, int rounds) {
  auto grid = cg::this_grid();
  const int n = gridDim.x, b = blockIdx.x;
  for (int r = 0; r < rounds; ++r) {
    const int neighbour = values[(b + 1) % n * blockDim.x + threadIdx.x];
    grid.sync();
    values[b * blockDim.x + threadIdx.x] += neighbour;
    grid.sync();
  }
}
// The same without the first sync is a race.
extern "C" __global__ void grid_race(int* values) {
  auto grid = cg::this_grid();
  const int neighbour = values[(blockIdx.x + 1) % gridDim.x * blockDim.x + threadIdx.x];
  values[blockIdx.x * blockDim.x + threadIdx.x] += neighbour;
  grid.sync();
}

struct Shape {
  __device__ virtual float area(float x) const { return 0; }
  float scale;
};
struct Square : Shape {
  __device__ float area(float x) const override { return scale * x * x; }
};
struct Strip : Shape {
  __device__ float area(float x) const override { return scale * x; }
};
__device__ __noinline__ float half_of(float x) { return x / 2; }
__device__ __noinline__ float more(float x) { return x + 1; }
typedef float (*Function)(float);
__device__ Function chosen[2] = {half_of, more};

extern "C" __global__ void virtual_calls(const float* x, float* y) {
  Square square;
  Strip strip;
  square.scale = 2, strip.scale = 3;
  const Shape* shape = threadIdx.x % 3 ? static_cast<const Shape*>(&square) : &strip;
  y[threadIdx.x] = shape->area(x[threadIdx.x]) + chosen[threadIdx.x & 1](x[threadIdx.x]);
}

// The intrinsics on halves and bytes of a word.
extern "C" __global__ void words(const unsigned* a, const unsigned* b, unsigned* out) {
  const unsigned x = a[threadIdx.x], y = b[threadIdx.x];
  unsigned* to = out + threadIdx.x * 8;
  to[0] = __vadd2(x, y);
  to[1] = __vabsdiffu4(x, y);
  to[2] = __vsads4(x, y);
  to[3] = __vmaxs2(x, y);
  to[4] = __viaddmax_s16x2_relu(x, y, 0x00100010);
  to[5] = __vcmpgts4(x, y);
  to[6] = __vavgu4(x, y);
  to[7] = __vimin_s16x2_relu(x, y);
}

// A stack whose size is known at run time.
extern "C" __global__ void stack_of(const int* sizes, int* out) {
  const int n = sizes[threadIdx.x];
  int* a = static_cast<int*>(alloca(n * sizeof(int)));
  for (int i = 0; i < n; ++i)
    a[i] = i * i;
  int sum = 0;
  for (int i = n - 1; i >= 0; i -= 2)
    sum += a[i];
  out[threadIdx.x] = sum;
}

// Atomics made of a plain load and compare-and-swaps, as CUDA's own for bf16 before sm_90.
__device__ float atomic_maximum(float* at, float v) {
  int* word = (int*)at;
  int old = *word, assumed;
  do {
    assumed = old;
    old = atomicCAS(word, assumed, __float_as_int(fmaxf(v, __int_as_float(assumed))));
  } while (assumed != old);
  return __int_as_float(old);
}
__device__ double atomic_sum(double* at, double v) {
  unsigned long long *word = (unsigned long long*)at, old = *word, assumed;
  do {
    assumed = old;
    old = atomicCAS(word, assumed, (unsigned long long)__double_as_longlong(v + __longlong_as_double((long long)assumed)));
  } while (assumed != old);
  return __longlong_as_double((long long)old);
}
extern "C" __global__ void swaps(__nv_bfloat16* small, float* largest, double* sum, float* in_block, float* before) {
  __shared__ float s;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x == 0) s = 0;
  __syncthreads();
  atomicAdd(small + i % 3, __float2bfloat16(1));
  before[i] = atomic_maximum(largest, (float)i);
  atomic_sum(sum, i);
  atomic_maximum(&s, (float)i);
  __syncthreads();
  in_block[i] = s;
}
extern "C" __global__ void swaps_and_stores(int* word, int* guesses) { // stores its guesses, which are arbitrary
  int old = *word, assumed;
  const int guess = old;
  do {
    assumed = old;
    old = atomicCAS(word, assumed, assumed + 1);
  } while (assumed != old);
  guesses[blockIdx.x * blockDim.x + threadIdx.x] = guess;
}

// Structures with padding, which is copied with them.
struct Best {
  float value;
  char index;
};
extern "C" __global__ void best(const float* x, Best* out) { // by shared memory, and by shuffles
  __shared__ Best s[64];
  const int t = threadIdx.x;
  Best m;
  m.value = x[t];
  m.index = (char)t;
  s[t] = m;
  __syncthreads();
  for (int k = 32; k; k >>= 1) {
    if (t < k) {
      Best a = s[t], b = s[t + k];
      s[t] = a.value > b.value ? a : b;
    }
    __syncthreads();
  }
  auto tile = cg::tiled_partition<32>(cg::this_thread_block());
  m = cg::reduce(tile, m, [](Best a, Best b) { return a.value > b.value ? a : b; });
  if (t % 32 == 0) out[1 + t / 32] = m;
  if (t == 0) out[0] = s[0];
}
struct Wide {
  double d;
  char c;
};
struct __align__(16) Three {
  float x, y, z;
};
struct Nested {
  Wide w;
  Three t;
  char c;
  short many[50];
};
__device__ __noinline__ Nested changed(Nested n, int t) {
  n.many[t % 50] += 1;
  return n;
}
extern "C" __global__ void nested(Nested* kept, Nested* copied, float* out) {
  __shared__ Nested s[32];
  const int t = threadIdx.x;
  Nested n;
  n.w.d = t;
  n.w.c = (char)t;
  n.t.x = n.t.y = n.t.z = (float)t;
  n.c = 1;
  for (int i = 0; i < 50; ++i)
    n.many[i] = (short)i;
  s[t] = n;
  __syncwarp();
  n = changed(s[31 - t], t);
  kept[t] = n;
  __syncwarp();
  copied[t] = kept[t ^ 1];
  Three three = copied[t].t;
  out[t] = (float)copied[t].w.d + three.x + three.y + three.z + copied[t].c + copied[t].many[7];
}
extern "C" __global__ void grouped_copy(Best* kept, Best* copied) { // cooperative groups' memcpy_async
  __shared__ Best s[64];
  auto block = cg::this_thread_block();
  Best b;
  b.value = threadIdx.x;
  b.index = 3;
  kept[threadIdx.x] = b;
  block.sync();
  cg::memcpy_async(block, s, kept, sizeof(Best) * 64);
  cg::wait(block);
  copied[threadIdx.x] = s[63 - threadIdx.x];
}
extern "C" __global__ void missed(float* out) { // an element that was never written, and the data next to padding
  __shared__ float s[64];
  __shared__ Best b[64];
  const int t = threadIdx.x;
  if (t != 5) s[t] = t;
  if (t != 7) b[t].value = t;
  b[t].index = 1;
  __syncthreads();
  out[t] = s[t ^ 1];
  Best x = b[t ^ 1];
  out[64 + t] = x.value;
}
