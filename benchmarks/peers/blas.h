// OpenBLAS and BLIS, opened at run time where they are.
#pragma once

#include <cstdint>
#include <string>

namespace benchmarks {

// c [m, n] = a b in floats, c row-major and contiguous. A transposed operand is stored as its transpose is,
// row-major: a as [k, m], b as [n, k].
struct BlasProduct {
  std::int64_t m = 0, n = 0, k = 0;
  bool transposed_a = false, transposed_b = false;
};

class Blas {
public:
  static Blas open_blas(int threads);
  static Blas blis(int threads);
  // What both read when they are loaded, to be set before: how long threads spin, and the kernels to use
  // where the CPU is newer than the library, which would fall back to those of an older one (OpenBLAS) or
  // to plain C (BLIS).
  static void prepare_environment();

  explicit operator bool() const { return sgemm_; }
  const std::string& description() const { return description_; } // the kernels it chose, and its threads
  bool starts_threads() const { return starts_threads_; }         // anew on each call
  void multiply(const BlasProduct& p, const float* a, const float* b, float* c) const;

private:
  void open(const char* first, const char* second);
  template <class F> F find(const char* name) const;
  void* handle_ = nullptr;
  void (*sgemm_)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*,
                 int) = nullptr;
  bool starts_threads_ = false;
  std::string description_;
};

} // namespace benchmarks
