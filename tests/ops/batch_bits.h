// Batches of random sizes whose results are compared to the bit, for tests of batch_invariant.
#pragma once

#include "left_out.h"
#include "strided.h"

#include <kiln/kiln.h>

#include <vector>

namespace kiln::test {

// How many rows a batch has: one, few, or many.
inline std::int64_t batch_size(Random& random) {
  if (random.integer(0, 2) == 0) return random.integer(1, 5);
  return random.integer(1, test_device().is_cpu() ? 300 : 40);
}

// The emulated GPUs are slow, so that they run one round.
inline int rounds_here(int count) { return test_device().is_cpu() ? rounds(count) : 1; }

template <class T, class... N> auto random_tensor(Random& random, N... extents) {
  auto t = Tensor<T, sizeof...(N)>::zeros({extents...});
  for (T& x : t)
    x = from_double<T>(random.uniform(-1, 1));
  return t;
}

using Bits = std::vector<unsigned char>;

template <class T, int R> void append(Bits& bits, const TensorView<T, R>& x) {
  for (std::int64_t i = 0; i < x.extent(0); ++i)
    if constexpr (R > 1) {
      append(bits, x.select(0, i));
    } else {
      const auto* first = reinterpret_cast<const unsigned char*>(&x(i));
      bits.insert(bits.end(), first, first + sizeof(T));
    }
}
template <class T, int R> Bits bits_of(const TensorView<T, R>& x) {
  Bits bits;
  append(bits, x);
  return bits;
}

// So that a result which is not written again is noticed.
template <class T, int R> void overwrite(const TensorView<T, R>& x) {
  for (std::int64_t i = 0; i < x.extent(0); ++i)
    if constexpr (R > 1)
      overwrite(x.select(0, i));
    else
      x(i) = from_double<T>(7);
}

// compute(first, count) computes `count` rows of a result from `first` on, and row(i) is row i of the result.
// Checks that the bits of a row are the same in batches of any size, and alone.
template <class Compute, class Row>
void check_batches(Random& random, std::int64_t rows, const Compute& compute, const Row& row) {
  compute(0, rows);
  std::vector<Bits> expected;
  for (std::int64_t i = 0; i < rows; ++i)
    expected.push_back(bits_of(row(i)));
  for (int batch = 0; batch < (test_device().is_cpu() ? 4 : 2); ++batch) {
    const std::int64_t count = batch == 0 ? 1 : std::min(rows, batch_size(random)),
                       first = random.integer(0, rows - count);
    compute(first, count);
    INFO("rows " << first << " to " << first + count - 1 << " of " << rows);
    std::int64_t different = 0;
    for (std::int64_t i = first; i < first + count; ++i)
      different += bits_of(row(i)) != expected[static_cast<std::size_t>(i)];
    CHECK(different == 0);
  }
}

} // namespace kiln::test
