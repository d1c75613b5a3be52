// OpenBLAS, opened at run time if it is there.
#pragma once

#include <cstdlib>
#include <dlfcn.h>
#include <initializer_list>

namespace benchmarks {

class OpenBlas {
public:
  // The environment is read when the library is loaded. Its threads must stop spinning soon after a call, or
  // they take the CPU from whoever is measured next; and on CPUs that it does not know by name it may fall
  // back to an older core.
  explicit OpenBlas(int threads) {
    setenv("OPENBLAS_THREAD_TIMEOUT", "20", 1);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) setenv("OPENBLAS_CORETYPE", "SkylakeX", 1);
#endif
    for (const char* name : {"libopenblas.so.0", "libopenblas.so"})
      if (!library_) library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library_) return;
    find("cblas_sgemm", sgemm_);
    find("openblas_get_corename", core_name_);
    int (*get_threads)() = nullptr;
    void (*set_threads)(int) = nullptr;
    find("openblas_set_num_threads", set_threads);
    find("openblas_get_num_threads", get_threads);
    if (set_threads) set_threads(threads);
    if (get_threads) threads_ = get_threads();
  }

  explicit operator bool() const { return sgemm_; }
  const char* core_name() const { return core_name_ ? core_name_() : "unknown"; }
  int threads() const { return threads_; }
  // c = a b, row-major and contiguous.
  void multiply(int m, int n, int k, const float* a, const float* b, float* c) const {
    constexpr int row_major = 101, no_transpose = 111;
    sgemm_(row_major, no_transpose, no_transpose, m, n, k, 1, a, k, b, n, 0, c, n);
  }

private:
  template <class F> void find(const char* name, F& function) {
    function = reinterpret_cast<F>(dlsym(library_, name));
  }
  void* library_ = nullptr;
  void (*sgemm_)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*,
                 int) = nullptr;
  char* (*core_name_)() = nullptr;
  int threads_ = 0;
};

} // namespace benchmarks
