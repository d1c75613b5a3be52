// Provides kernels, spaces and helpers for the tests of measuring.
#pragma once

#include <kiln/autotune/measure/live_measurer.h>
#include <kiln/dsl/ir/printer.h>
#include <kiln/jit/base/sanitized.h>
#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include "scoped_variable.h"
#include "temporary_folder.h"
#include "test_seed.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace kiln::test {

// Sanitizers report crashes themselves and end the process without a signal, so tests check `sanitized`.

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

inline const auto& matmul() {
  static const auto k =
      kernel("measured_matmul", [](View<const float, 2> a, View<const float, 2> b, View<float, 2> c) {
        auto [m, n] = program_tile(c, BM, BN);
        c.tile(m, n).store(for_range(BK, a.cols(), zeros<float>(BM, BN), [&](auto k, auto sum) {
          return sum + dot(a.tile(m, k).load(), b.tile(k, n).load());
        }));
      });
  return k;
}

// x = 2 x + 1, in place. It reads the size of its tiles, which makes the CPU back end keep it
// (jit/cpu/rewrite/widen.h).
inline const auto& update() {
  static const auto k = kernel("measured_update", [](View<float, 1> x) {
    auto [i] = program_tile(x, BN);
    x.tile(i).store(x.tile(i).load() * 2 + cast<float>(min(dim_size(BN), 1)));
  });
  return k;
}

template <class K> std::function<std::string(const Config&)> text_of(const K& k) {
  return [&k](const Config& config) { return ir::print(*k.record(config)); };
}

inline tune::Workload matmul_workload(std::int64_t m, std::int64_t n, std::int64_t k,
                                      Device device = Device::cpu()) {
  tune::Workload w;
  w.ir = text_of(matmul());
  w.arguments = {tune::tensor_argument(DType::F32, {m, k}, true),
                 tune::tensor_argument(DType::F32, {k, n}, true),
                 tune::tensor_argument(DType::F32, {m, n}, false)};
  w.device = device;
  return w;
}

inline tune::Space matmul_space() {
  tune::Space space;
  space.pow2(BM, 8, 64).pow2(BN, 8, 64).pow2(BK, 8, 64).seed({{"BM", 32}, {"BN", 32}, {"BK", 32}});
  return space;
}

// Options for short measurements of problems that take microseconds.
inline tune::MeasureOptions quick_options() {
  tune::MeasureOptions o;
  o.jobs = 2;
  o.least_seconds = 0.005;
  o.most_seconds = 0.05;
  o.confirm_seconds = 0.05;
  return o;
}

inline int open_descriptors() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

// While this lives, the tuners of this process create their folders in a separate folder, which contains no
// others.
class TunersFolder {
public:
  bool empty() const { return std::filesystem::is_empty(folder_.path()); }

private:
  TemporaryFolder folder_;
  ScopedVariable variable_{"TMPDIR", folder_.path().c_str()};
};

class Stopwatch {
public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

} // namespace kiln::test
