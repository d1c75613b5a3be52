// Tests that KILN_DEBUG=1 checks no index which was computed from an element outside of its view, and all
// others.
#include "error/error_test.h"

#include <kiln/jit/base/options.h>

#include <random_numbers.h>

#include <numeric>

using namespace kiln;
using kiln::test::error_of;

KILN_DIM(BN);
KILN_DIM(BM);

namespace {

Options debugging() {
  Options o = options();
  o.debug = true;
  return o;
}

using Indices = View<const std::int32_t, 1>;

// y[i] = x[at[i] - 1], where lanes past the end of `at` have the index -1.
const auto take = kernel("take", [](View<const float, 1> x, Indices at, View<float, 1> y) {
  auto [i] = program_tile(y, BN);
  y.tile(i).store(x.at(at.tile(i).load() - 1).load());
});
// The same by a scatter, by atomics, through two tables, and for whole rows.
const auto put = kernel("put", [](View<const float, 1> x, Indices at, View<float, 1> y) {
  auto [i] = program_tile(x, BN);
  y.at(at.tile(i).load() - 1).store(x.tile(i).load());
});
const auto add = kernel("add", [](View<const float, 1> x, Indices at, View<float, 1> y) {
  auto [i] = program_tile(x, BN);
  y.at(at.tile(i).load() - 1).atomic_add(x.tile(i).load());
});
const auto twice = kernel("twice", [](View<const float, 1> x, Indices at, View<float, 1> y) {
  auto [i] = program_tile(y, BN);
  Tile first = at.at(cast<std::int64_t>(at.tile(i).load() - 1)).load() - 1;
  y.tile(i).store(x.at(first).load());
});
const auto by_positions = kernel("by_positions", [](View<const float, 1> x, Indices at, View<float, 1> y) {
  auto [i] = program_tile(y, BN);
  y.tile(i).store(x.at(at.at(i + arange(BN)).load_or(7777)).load());
});

template <class K>
std::string error_with(const K& kernel, std::vector<std::int32_t> at, std::int64_t size, std::int64_t tile) {
  ScopedOptions debug(debugging());
  std::vector<float> x(static_cast<std::size_t>(size), 1), y(static_cast<std::size_t>(size), 0);
  Stream stream;
  kernel.launch(stream, {BN = tile}, TensorView<const float, 1>(x), TensorView<const std::int32_t, 1>(at),
                TensorView(y));
  std::string error = error_of([&] { stream.synchronize(); });
  stream.clear_error();
  return error;
}

} // namespace

TEST_CASE("indices from past the end of a tile of indices are not checked") {
  test::Random random;
  const std::int64_t size = random.integer(1, 300), tile = random.integer(1, 64);
  INFO("seed " << random.seed << ", size " << size << ", tile " << tile);
  std::vector<std::int32_t> one_based(static_cast<std::size_t>(size));
  std::iota(one_based.begin(), one_based.end(), 1);
  std::shuffle(one_based.begin(), one_based.end(), random);
  CHECK(error_with(take, one_based, size, tile) == "no error");
  CHECK(error_with(put, one_based, size, tile) == "no error");
  CHECK(error_with(add, one_based, size, tile) == "no error");
  CHECK(error_with(twice, one_based, size, tile) == "no error");
  for (std::int32_t& i : one_based)
    --i;
  CHECK(error_with(by_positions, one_based, size, tile) == "no error");
  CHECK(error_with(take, {}, 0, tile) == "no error");
}

TEST_CASE("a wrong index inside of a tile of indices is found next to the padding") {
  const std::vector<std::int32_t> low{1, 2, 0}, high{1, 4, 2};
  for (auto [at, comparison] : {std::pair{low, "-1 >= 0"}, {high, "3 < 3"}}) {
    INFO(comparison);
    const std::string says = std::string(comparison) + " is false";
    CHECK_THAT(error_with(take, at, 3, 8), Catch::Contains(says));
    CHECK_THAT(error_with(put, at, 3, 8), Catch::Contains(says));
    // Conditions that are kept in memory, because the access needs them too, are shown without their sides.
    CHECK_THAT(error_with(add, at, 3, 8), Catch::Contains("an atomic by index lies outside the view"));
    CHECK_THAT(error_with(twice, at, 3, 8), Catch::Contains("a read by index lies outside the view"));
  }
  CHECK_THAT(error_with(by_positions, {0, 3, 1}, 3, 8), Catch::Contains("3 < 3 is false"));
}

TEST_CASE("rows that an index past the end would select are not checked") {
  const auto rows = kernel("rows", [](View<const float, 2> table, Indices at, View<float, 2> y) {
    auto [i] = program_tile(y, BM);
    Tile row = at.tile(i).load() - 1;
    y.tile(i, offset(BN, 0)).store(table.at(expand<1>(row), expand<0>(arange(BN))).load());
  });
  ScopedOptions debug(debugging());
  std::vector<float> table(4 * 5, 1), y(3 * 5, 0);
  std::vector<std::int32_t> at{4, 1, 2};
  auto run = [&] {
    Stream stream;
    rows.launch(stream, {BM = 8, BN = 5}, TensorView<const float, 2>(table.data(), {4, 5}),
                TensorView<const std::int32_t, 1>(at), TensorView<float, 2>(y.data(), {3, 5}));
    std::string error = error_of([&] { stream.synchronize(); });
    stream.clear_error();
    return error;
  };
  CHECK(run() == "no error");
  at[2] = 5;
  CHECK_THAT(run(), Catch::Contains("4 < 4 is false"));
}

TEST_CASE("emulated GPUs do not check indices from past the end either") {
  ScopedOptions debug(debugging());
  const Device device = Device::emulated("sm_80");
  Stream stream(device);
  auto x = Tensor<float, 1>::zeros({5}), y = Tensor<float, 1>::zeros({5});
  auto at = Tensor<std::int32_t, 1>::zeros({5});
  for (int i = 0; i < 5; ++i)
    x.data()[i] = static_cast<float>(i), at.data()[i] = 5 - i;
  auto values = x.to(device), result = y.to(device);
  auto places = at.to(device);
  take.launch(stream, {BN = 32}, values, places, result);
  stream.synchronize();
  auto host = result.to(Device::cpu());
  for (int i = 0; i < 5; ++i)
    CHECK(host.data()[i] == static_cast<float>(4 - i));
  at.data()[3] = 9;
  places = at.to(device);
  const std::string error = error_of([&] {
    take.launch(stream, {BN = 32}, values, places, result);
    stream.synchronize();
  });
  CHECK_THAT(error, Catch::Contains("a read by index lies outside the view"));
  stream.clear_error();
}
