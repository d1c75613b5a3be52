// Multiplies matrices with oneDNN, where its headers were found when Kiln was configured.
#pragma once

#include <kiln/dsl/dtype.h>

#include <cstdint>
#include <functional>
#include <string>

namespace benchmarks {

// The product c = a b of row-major matrices. A transposed operand is stored as its transpose.
struct OneDnnProduct {
  kiln::DType dtype = kiln::DType::F32; // of a, b and c, except that c is I32 where a and b are I8
  std::int64_t m = 0, n = 0, k = 0;
  bool transposed_a = false, transposed_b = false;
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
};

enum class Weights : std::uint8_t {
  as_they_are,    // b stays row-major, as all contenders read it
  packed_outside, // b is packed into oneDNN's preferred layout before the timing
};

// Version, kernels and threads; empty without oneDNN. It uses OMP_NUM_THREADS threads, read at program start.
std::string onednn_description();
// Returns a function that multiplies once and waits, or an empty one if oneDNN does not support the product.
std::function<void()> onednn_matmul(const OneDnnProduct& product, Weights weights);

} // namespace benchmarks
