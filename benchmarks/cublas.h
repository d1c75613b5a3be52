// Loads cuBLAS at run time, if it is installed, and multiplies matrices with it.
#pragma once

#include <kiln/kiln.h>

#include <dlfcn.h>
#include <string>

namespace benchmarks {

class CuBlas {
public:
  // All products are queued on `stream`, which must belong to a CUDA device.
  explicit CuBlas(const kiln::Stream& stream) {
    for (const char* name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so"})
      if (!library_) library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library_) return;
    int (*create)(void**) = nullptr;
    int (*set_stream)(void*, void*) = nullptr;
    int (*get_version)(void*, int*) = nullptr;
    find("cublasCreate_v2", create);
    find("cublasSetStream_v2", set_stream);
    find("cublasGetVersion_v2", get_version);
    find("cublasGemmEx", gemm_);
    if (!create || !set_stream || !get_version || !gemm_) return;
    if (create(&handle_) != 0 || set_stream(handle_, stream.cuda_handle()) != 0) handle_ = nullptr;
    if (handle_) get_version(handle_, &version_);
  }

  explicit operator bool() const { return handle_; }
  std::string name() const {
    return handle_ ? "cuBLAS " + std::to_string(version_ / 10000) + "." + std::to_string(version_ / 100 % 100)
                   : "not found";
  }
  // Queues c = a b for row-major contiguous matrices, with sums in f32. Returns false if cuBLAS reports an
  // error.
  template <class T> bool multiply(int m, int n, int k, const T* a, const T* b, T* c) const {
    constexpr int no_transpose = 0, compute_f32 = 68, default_algorithm = -1;
    constexpr int type = std::is_same_v<T, float> ? 0 : std::is_same_v<T, kiln::f16> ? 2 : 14; // bf16
    const float one = 1, zero = 0;
    // cuBLAS uses column-major order, so this computes the transposed product.
    return gemm_(handle_, no_transpose, no_transpose, n, m, k, &one, b, type, n, a, type, k, &zero, c, type,
                 n, compute_f32, default_algorithm) == 0;
  }

private:
  template <class F> void find(const char* name, F& function) {
    function = reinterpret_cast<F>(dlsym(library_, name));
  }
  void *library_ = nullptr, *handle_ = nullptr;
  int version_ = 0;
  int (*gemm_)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int,
               const void*, void*, int, int, int, int) = nullptr;
};

} // namespace benchmarks
