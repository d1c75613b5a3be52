// Loads OpenBLAS and BLIS at run time, where they are installed, and multiplies matrices with them.
#pragma once

#include <cstdint>
#include <string>

namespace benchmarks {

// The product c = a b of f32 matrices. All are stored row-major and contiguous. A transposed operand is
// stored as its transpose: a as [k, m], b as [n, k]. c is [m, n].
struct BlasProduct {
  std::int64_t m = 0, n = 0, k = 0;
  bool transposed_a = false, transposed_b = false;
};

class Blas {
public:
  static Blas open_blas(int threads);
  static Blas blis(int threads);
  // Sets environment variables that both libraries read when they are loaded: how long their threads spin
  // after a call, and which kernels they use. On a CPU that is newer than the library, OpenBLAS would use the
  // kernels of a much older CPU, and BLIS plain C.
  static void prepare_environment();

  explicit operator bool() const { return sgemm_; }
  const std::string& description() const { return description_; } // version, kernels and threads
  bool starts_threads() const { return starts_threads_; }         // whether each call starts threads
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
