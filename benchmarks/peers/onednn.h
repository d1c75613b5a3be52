// oneDNN's matrix product, where its headers were found when Kiln was configured.
#pragma once

#include <kiln/dsl/dtype.h>

#include <cstdint>
#include <functional>
#include <string>

namespace benchmarks {

// c [m, n] = a b, all row-major; a transposed operand is stored as its transpose is.
struct OneDnnProduct {
  kiln::DType dtype = kiln::DType::F32; // of a, b and c; of I8 c is I32
  std::int64_t m = 0, n = 0, k = 0;
  bool transposed_a = false, transposed_b = false;
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
};

enum class Weights : std::uint8_t {
  as_they_are,    // the comparison: b is read as the caller has it
  packed_outside, // b is brought into the order that oneDNN likes best before anything is timed
};

// Empty where there is no oneDNN. It uses as many threads as OMP_NUM_THREADS said when the program started.
std::string onednn_description();
// A call that multiplies once and waits; empty if it cannot do this.
std::function<void()> onednn_matmul(const OneDnnProduct& product, Weights weights);

} // namespace benchmarks
