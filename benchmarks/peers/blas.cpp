// Calls OpenBLAS and BLIS through their common C interface.
#include "blas.h"

#include <fmt/format.h>

#include <cstdlib>
#include <dlfcn.h>
#include <string_view>
#include <vector>

namespace benchmarks {

void Blas::open(const char* first, const char* second) {
  for (const char* name : {first, second})
    if (!handle_) handle_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (handle_) sgemm_ = find<decltype(sgemm_)>("cblas_sgemm");
}

template <class F> F Blas::find(const char* name) const { return reinterpret_cast<F>(dlsym(handle_, name)); }

void Blas::prepare_environment() {
  setenv("OPENBLAS_THREAD_TIMEOUT", "20", 1); // threads spin for 2^20 cycles after a call, not 2^26
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx512f")) return;
  setenv("OPENBLAS_CORETYPE", "SkylakeX", 1);
  // BLIS identifies its kernels by a number that differs between versions.
  Blas blis;
  blis.open("libblis.so.4", "libblis.so");
  if (!blis.handle_) return;
  if (auto name = blis.find<const char* (*)(int)>("bli_arch_string"))
    for (int i = 0; i < 64 && name(i) && std::string_view(name(i)) != "generic"; ++i)
      if (std::string_view(name(i)) == "skx") {
        setenv("BLIS_ARCH_TYPE", std::to_string(i).c_str(), 1);
        break;
      }
  dlclose(blis.handle_);
#endif
}

Blas Blas::open_blas(int threads) {
  Blas blas;
  blas.open("libopenblas.so.0", "libopenblas.so");
  if (!blas) return blas;
  if (auto set = blas.find<void (*)(int)>("openblas_set_num_threads")) set(threads);
  auto count = blas.find<int (*)()>("openblas_get_num_threads");
  auto core = blas.find<char* (*)()>("openblas_get_corename");
  auto config = blas.find<char* (*)()>("openblas_get_config");
  std::string version = config ? config() : "";
  version = version.substr(0, version.find(' ', version.find(' ') + 1)); // "OpenBLAS 0.3.21"
  blas.description_ = fmt::format("{}, {} kernels, threads: {}", version, core ? core() : "unknown",
                                  count ? count() : threads);
  return blas;
}

Blas Blas::blis(int threads) {
  Blas blas;
  blas.open("libblis.so.4", "libblis.so");
  if (!blas) return blas;
  if (auto set = blas.find<void (*)(std::int64_t)>("bli_thread_set_num_threads")) set(threads);
  std::vector<float> x(4, 1.0f);
  blas.multiply({2, 2, 2}, x.data(), x.data(), x.data()); // BLIS chooses its kernels in the first call
  auto kernels = blas.find<int (*)()>("bli_arch_query_id");
  auto name = blas.find<const char* (*)(int)>("bli_arch_string");
  auto version = blas.find<const char* (*)()>("bli_info_get_version_str");
  auto pthreads = blas.find<std::int64_t (*)()>("bli_info_get_enable_pthreads");
  auto count = blas.find<std::int64_t (*)()>("bli_thread_get_num_threads");
  blas.starts_threads_ = pthreads && pthreads() != 0;
  blas.description_ = fmt::format("BLIS {}, {} kernels, threads: {}{}", version ? version() : "",
                                  kernels && name ? name(kernels()) : "unknown", count ? count() : threads,
                                  blas.starts_threads_ ? ", started on each call" : "");
  return blas;
}

void Blas::multiply(const BlasProduct& p, const float* a, const float* b, float* c) const {
  constexpr int row_major = 101, as_it_is = 111, transposed = 112;
  int m = static_cast<int>(p.m), n = static_cast<int>(p.n), k = static_cast<int>(p.k);
  sgemm_(row_major, p.transposed_a ? transposed : as_it_is, p.transposed_b ? transposed : as_it_is, m, n, k,
         1, a, p.transposed_a ? m : k, b, p.transposed_b ? k : n, 0, c, n);
}

} // namespace benchmarks
