// Tests atomic sums into arrays that threads add to in copies of their own: all sums arrive, whatever the
// array's size and strides, and whether or not other arguments overlap it.
#include "random_numbers.h"

#include <catch2/catch.hpp>
#include <kiln/kiln.h>

#include <vector>

using namespace kiln;

KILN_DIM(BN);

namespace {

using Bins = View<const std::int32_t, 1>;

template <class T> T weight_of(std::int32_t bin) { return static_cast<T>(bin % 3 + 1); }

// Adds a weight to the bin of each element. Bins that do not exist are left out.
template <class T> const auto& sums_kernel() {
  static const auto sums = kernel("sums", [](Bins bins, View<T, 1> h) {
    auto [i] = program_tile(bins, BN);
    Tile bin = bins.tile(i).load_or(-1);
    h.at(cast<std::int64_t>(bin)).atomic_add(cast<T>(bin % 3 + 1));
  });
  return sums;
}

} // namespace

TEMPLATE_TEST_CASE("sums into arrays of any size and stride arrive", "", std::int8_t, std::uint16_t,
                   std::int32_t, std::uint64_t, float, double) {
  using T = TestType;
  test::Random random;
  KILN_SEED(random);
  for (std::int64_t size : {1, 3, 64, 1000, 70000}) {
    const std::int64_t stride = random.integer(0, 1) ? random.integer(1, 3) : -random.integer(1, 3);
    const std::int64_t count = random.integer(0, 1) ? random.integer(0, 500) : random.integer(5000, 40000);
    CAPTURE(size, stride, count);
    std::vector<std::int32_t> bins(static_cast<std::size_t>(count));
    for (std::int32_t& b : bins)
      b = static_cast<std::int32_t>(random.integer(-2, size + 1));
    std::vector<T> memory(static_cast<std::size_t>(3 * size + 6), T(7)), expected = memory;
    const std::int64_t first = stride < 0 ? -stride * (size - 1) + 2 : 2;
    for (std::int32_t b : bins)
      if (b >= 0 && b < size) {
        T& sum = expected[static_cast<std::size_t>(first + b * stride)];
        sum = static_cast<T>(sum + weight_of<T>(b));
      }
    Stream stream;
    sums_kernel<T>().launch(stream, {BN = random.integer(1, 300)}, TensorView<const std::int32_t, 1>(bins),
                            TensorView<T, 1>(memory.data() + first, {size}, {stride}));
    stream.synchronize();
    CHECK(memory == expected);
  }
}

TEST_CASE("sums into an array that another argument overlaps are seen at once") {
  // The second sum of each program reads what the first one has written.
  const auto twice = kernel("twice", [](View<const std::int32_t, 1> x, View<std::int32_t, 1> h) {
    h.at(arange(BN)).atomic_add(full<std::int32_t>(1, BN));
    h.at(arange(BN)).atomic_add(x.tile(offset(BN, 0)).load());
  });
  std::vector<std::int32_t> h{10, 20, 30, 40};
  Stream stream;
  twice.launch(stream, {BN = 4}, Grid{1}, TensorView<const std::int32_t, 1>(h),
               TensorView<std::int32_t, 1>(h));
  stream.synchronize();
  CHECK(h == std::vector<std::int32_t>{22, 42, 62, 82});
}

TEST_CASE("sums in loops and under masks arrive") {
  const auto looped = kernel("looped", [](Bins bins, View<float, 1> h, Scalar<std::int32_t> times) {
    auto [i] = program_tile(bins, BN);
    Tile bin = bins.tile(i).load_or(-1);
    for_range(1_c, times,
              [&](auto) { h.at(cast<std::int64_t>(bin)).atomic_add(full<float>(1, BN), bin % 2 == 0); });
  });
  std::vector<std::int32_t> bins(5000);
  std::vector<float> h(100, 0), expected(100, 0);
  test::Random random;
  KILN_SEED(random);
  for (std::int32_t& b : bins) {
    b = static_cast<std::int32_t>(random.integer(0, 99));
    if (b % 2 == 0) expected[static_cast<std::size_t>(b)] += 5;
  }
  Stream stream;
  looped.launch(stream, {BN = 64}, TensorView<const std::int32_t, 1>(bins), TensorView(h), 5);
  stream.synchronize();
  CHECK(h == expected);
}
