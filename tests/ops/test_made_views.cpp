// Tests views that a kernel makes (slices, views of pointers), pointers from addresses, numbers that are read
// from bytes, and grids over some axes, on each device and in the interpreter.
#include "strided.h"

#include <cstring>

using namespace kiln;
using namespace kiln::test;

KILN_DIM(BM);
KILN_DIM(BN);

namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// A tensor of the test's device with the given contents.
template <class T> Tensor<T, 1> on_device(const std::vector<T>& values) {
  auto host = Tensor<T, 1>::empty({static_cast<std::int64_t>(values.size())});
  std::copy(values.begin(), values.end(), host.data());
  return host.to(test_device());
}
template <class T> std::vector<T> contents(const Tensor<T, 1>& tensor) {
  auto host = tensor.to(Device::cpu());
  return {host.data(), host.data() + host.size()};
}
template <class T> std::uint64_t address(const Tensor<T, 1>& tensor) {
  return reinterpret_cast<std::uint64_t>(tensor.data());
}

// Launches on the test's device, or interprets if it is the CPU.
template <class K, class... A>
void launch(bool interpreted, const K& kernel, const Config& config, A&&... a) {
  if (interpreted && test_device().is_cpu()) return kernel.interpret(config, a...);
  Stream stream(test_device());
  kernel.launch(stream, config, a...);
  stream.synchronize();
}

} // namespace

TEST_CASE("each gives a plain index, and whole leaves an axis out of the grid") {
  const auto scale =
      kernel("scale_heads", [](View<const float, 4> x, View<const float, 1> by, View<float, 4> y) {
        auto [b, h, n] = program_tile(x, each, whole, each, BN);
        static_assert(std::is_same_v<decltype(b), Scalar<std::int64_t>>);
        static_assert(std::is_same_v<decltype(n), Offset<BN>>);
        Scalar<float> factor = by.at(h).load();
        for_range(0, x.extent(1), 1, [&](auto row) {
          Tile<float, BN> t = x.tile(b, row, h, n).load(); // no axis for b, row and h
          y.tile(b, row, h, n).store(t * factor);
        });
      });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t a = random.integer(1, 3), b = random.integer(1, 4), c = random.integer(1, 4),
                     d = random.integer(1, 20);
  Strided<float, 4> x(random, {a, b, c, d}, uniform(random, -1, 1)),
      y(random, {a, b, c, d}, [] { return 7; });
  Strided<float, 1> by(random, {c}, uniform(random, -2, 2));
  run(scale, {BN = 8}, x.view, by.view, y.view);
  y.check(0, [&](auto i, auto j, auto k, auto l) {
    return static_cast<float>(x(i, j, k, l)) * static_cast<float>(by(k));
  });
}

TEST_CASE("a constant dimension is made of a constexpr integer") {
  constexpr int width = 12;
  const auto sums = kernel("constant_width", [](View<const float, 2> x, View<float, 1> y) {
    auto [r] = program_tile(x, each);
    Tile<float, width> t = x.tile(r, offset(constant<width>, 0)).load();
    y.at(r).store(sum(t + zeros<float>(12_c)));
  });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  Strided<float, 2> x(random, {5, 15}, [] { return 1; });
  Strided<float, 1> y(random, {5}, [] { return 0; });
  run(sums, {}, x.view, y.view);
  y.check(0, [&](auto) { return 12; });
}

TEST_CASE("a slice has bounds of its own for loads, stores, gathers, scatters and atomics") {
  const auto ragged = kernel("ragged_rows", [](View<const float, 2> x, View<const std::int32_t, 2> ends,
                                               View<float, 2> y, View<float, 2> gathered,
                                               View<int, 1> counts) {
    auto [r] = program_tile(x, each);
    Scalar<std::int32_t> begin = ends.at(r, 0).load(), end = ends.at(r, 1).load();
    auto row = x.slice(1, begin, end);
    auto out = y.slice(-1, begin, end);
    auto some = counts.slice(0, begin, end);
    counts.at(counts.size() - 1 - r).atomic_add(cast<int>(row.extent(1))); // extents are those of the slice
    for_range(BN, x.cols(), [&](auto n) {
      out.tile(r, n).store(row.tile(r, n).load_or(-1.0f) + 1);
      Tile index = n + arange(BN) - 3;
      gathered.tile(r, n).store(row.at(r, index).load_or(-2.0f));
      out.at(r, index).store(row.at(r, index).load() * 2,
                             index < 0); // negative indices are outside of a slice
      some.at(n + arange(BN)).atomic_add(1);
    });
  });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t rows = random.integer(1, 5), cols = random.integer(1, 40);
  Strided<float, 2> x(random, {rows, cols}, uniform(random, -1, 1)),
      y(random, {rows, cols}, [] { return 50; }), gathered(random, {rows, cols}, [] { return 50; });
  Strided<std::int32_t, 2> ends(random, {rows, 2},
                                [&] { return static_cast<double>(random.integer(-5, 45)); });
  Strided<int, 1> counts(random, {2 * cols + rows + 5}, [] { return 0; });
  std::vector<double> expected_counts(at(counts.view.extent(0)));
  auto begin_of = [&](std::int64_t r) { return std::clamp<std::int64_t>(ends.view(r, 0), 0, cols); };
  auto end_of = [&](std::int64_t r) { return std::clamp<std::int64_t>(ends.view(r, 1), begin_of(r), cols); };
  run(ragged, {BN = 8}, x.view, ends.view, y.view, gathered.view, counts.view);
  y.check(1e-6, [&](auto r, auto c) { return c >= begin_of(r) && c < end_of(r) ? x(r, c) + 1 : 50; });
  gathered.check(1e-6, [&](auto r, auto c) {
    const std::int64_t from = begin_of(r) + c - 3;
    return c >= 3 && from < end_of(r) ? x(r, from) : -2;
  });
  const std::int64_t most = counts.view.extent(0), reached = (cols + 7) / 8 * 8;
  for (std::int64_t r = 0; r < rows; ++r) {
    expected_counts[at(most - 1 - r)] += static_cast<double>(end_of(r) - begin_of(r));
    const std::int64_t b = std::clamp<std::int64_t>(ends.view(r, 0), 0, most),
                       e = std::clamp<std::int64_t>(ends.view(r, 1), b, most);
    for (std::int64_t i = b; i < std::min(e, b + reached); ++i)
      expected_counts[at(i)] += 1;
  }
  counts.check(0, [&](auto i) { return expected_counts[at(i)]; });
}

TEST_CASE("slices of slices and facts of slices") {
  const auto nested = kernel("nested_slices", [](View<const float, 2> x, View<float, 2> y) {
    auto [r] = program_tile(y, each);
    auto part = x.slice(1, 2, x.cols() - 1).slice(1, 1, 5).slice(0, r, x.rows());
    y.at(r, 0).store(cast<float>(part.cols()));
    y.at(r, 1).store(cast<float>(part.rows()));
    y.at(r, 2).store(raw::load(part.data(), part.size() > 0, -5.0f));
    y.tile(r, offset(BN, 3)).store(part.tile(0, offset(BN, -1)).load_or(9.0f));
  });
  Random random;
  KILN_SEED(random);
  const Run run{GENERATE(false, true)};
  const std::int64_t rows = random.integer(1, 4), cols = random.integer(1, 12);
  Strided<float, 2> x(random, {rows, cols}, uniform(random, -1, 1)), y(random, {rows, 11}, [] { return 0; });
  run(nested, {BN = 8}, x.view, y.view);
  const std::int64_t first = 3, end = std::clamp<std::int64_t>(cols - 1, 3, 7),
                     width = cols - 1 > 2 ? std::max<std::int64_t>(0, end - first) : 0;
  y.check(0, [&](auto r, auto c) -> double {
    if (c == 0) return static_cast<double>(width);
    if (c == 1) return static_cast<double>(rows - r);
    if (c == 2) return width > 0 ? x(r, first) : -5;
    const std::int64_t i = c - 4;
    return i >= 0 && i < width ? x(r, first + i) : 9;
  });
}

TEST_CASE("a table of addresses gives pointers and views") {
  const auto together =
      kernel("sum_of_list", [](View<const std::uint64_t, 1> inputs, View<const std::int64_t, 1> sizes,
                               View<const std::uint64_t, 1> outputs, View<float, 1> totals) {
        auto [i] = program_tile(inputs, each);
        auto x = raw::view(raw::pointer<const float>(inputs.at(i).load()), {sizes.at(i).load()});
        auto y = raw::view(raw::pointer<float>(outputs.at(i).load()), {sizes.at(i).load()});
        auto total = for_range(BN, x.size(), 0.0f, [&](auto n, auto total) {
          Tile t = x.tile(n).load();
          y.tile(n).store(t * 2);
          return total + sum(t + y.tile(n).load()); // reads what it has just written
        });
        totals.at(i).store(total);
      });
  Random random;
  KILN_SEED(random);
  const bool interpreted = GENERATE(false, true);
  std::vector<Tensor<float, 1>> inputs, outputs;
  std::vector<std::uint64_t> from, to;
  std::vector<std::int64_t> sizes;
  std::vector<float> totals;
  for (int i = 0; i < 4; ++i) {
    sizes.push_back(random.integer(0, 70));
    std::vector<float> values;
    for (std::int64_t k = 0; k < sizes.back(); ++k)
      values.push_back(static_cast<float>(random.integer(-9, 9)));
    float total = 0;
    for (float v : values)
      total += 3 * v;
    totals.push_back(total);
    values.push_back(1000); // past the end of the view
    inputs.push_back(on_device(values));
    outputs.push_back(on_device(std::vector<float>(values.size(), -1)));
    from.push_back(address(inputs.back()));
    to.push_back(address(outputs.back()));
  }
  auto result = on_device(std::vector<float>(4, -1));
  launch(interpreted, together, {BN = 16}, on_device(from), on_device(sizes), on_device(to), result);
  CHECK(contents(result) == totals);
  for (std::size_t i = 0; i < 4; ++i) {
    std::vector<float> expected = contents(inputs[i]);
    for (float& v : expected)
      v *= 2;
    expected.back() = -1;
    CHECK(contents(outputs[i]) == expected);
  }
}

TEST_CASE("a view of a pointer has strides, and tiles of addresses give tiles of pointers") {
  const auto columns =
      kernel("columns_of_pointers",
             [](Scalar<std::uint64_t> where, View<const std::uint64_t, 1> each_row, View<float, 2> y) {
               auto [m, n] = program_tile(y, BM, BN);
               auto x = raw::view(raw::pointer<const float>(where), {5, 7}, {1, 5}); // column-major
               Tile a = x.tile(m, n).load();
               Tile rows = raw::pointer<const float>(each_row.tile(m).load());
               Tile ok = expand<1>(m + arange(BM) < 5) & expand<0>(n + arange(BN) < 7);
               Tile b = raw::load(expand<1>(rows) + expand<0>(5 * (n + arange(BN))), ok);
               y.tile(m, n).store(a * 100 + b);
             });
  const bool interpreted = GENERATE(false, true);
  std::vector<float> values;
  for (int i = 0; i < 35; ++i)
    values.push_back(static_cast<float>(i));
  auto x = on_device(values);
  std::vector<std::uint64_t> rows;
  for (std::uint64_t r = 0; r < 5; ++r)
    rows.push_back(address(x) + 4 * r);
  auto y = on_device(std::vector<float>(6 * 8, -1));
  launch(interpreted, columns, {BM = 4, BN = 4}, address(x), on_device(rows), y.view().reshape({6, 8}));
  const auto result = contents(y);
  for (int r = 0; r < 6; ++r)
    for (int c = 0; c < 8; ++c) {
      const bool inside = r < 5 && c < 7;
      CHECK(result[at(8 * r + c)] == (inside ? 101.0f * static_cast<float>(5 * c + r) : 0));
    }
}

TEST_CASE("a store through an address is seen by loads of the view that it lies in") {
  const auto alias = kernel("aliased_address", [](View<float, 1> x, Scalar<std::uint64_t> where) {
    Tile before = x.tile(offset(BN, 0)).load();
    raw::store(raw::pointer<float>(where) + arange(BN), before + 1, arange(BN) < x.size() - 1);
    Tile after = x.tile(offset(BN, 0)).load();
    x.tile(offset(BN, 0)).store(after * 10);
  });
  std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8};
  auto x = on_device(values);
  Stream stream(test_device());
  alias.launch(stream, {BN = 8}, Grid{1}, x, address(x) + 4);
  stream.synchronize();
  CHECK(contents(x) == std::vector<float>{10, 20, 30, 40, 50, 60, 70, 80});
}

TEST_CASE("numbers are read from bytes at any address") {
  // Blocks of 4-bit numbers with a scale, as packed formats of weights have them: 2 bytes of f16, then 16
  // bytes.
  const auto unpack = kernel(
      "unpack", [](View<const std::uint8_t, 1> blocks, raw::Ptr<const std::uint8_t> again, View<float, 2> y) {
        auto [b] = program_tile(y, each);
        Scalar<float> scale = cast<float>(load_as<f16>(blocks.at(18 * b)));
        Tile words = load_as<std::uint32_t>(blocks.at(18 * b + 2 + 4 * arange(4_c)));
        Tile same = raw::load_as<std::uint32_t>(again + (18 * b + 2 + 4 * arange(4_c)));
        Tile nibbles = (expand<1>(words) >> cast<std::uint32_t>(expand<0>(4 * arange(8_c)))) & 15u;
        Tile equal = cast<float>(expand<1>(words == same));
        y.tile(b, offset(32_c, 0)).store(flatten((cast<float>(nibbles) - 8) * scale * equal));
      });
  Random random;
  KILN_SEED(random);
  const bool interpreted = GENERATE(false, true);
  const std::int64_t count = random.integer(1, 5);
  std::vector<std::uint8_t> bytes;
  std::vector<float> expected;
  for (std::int64_t b = 0; b < count; ++b) {
    const f16 scale(static_cast<float>(random.integer(1, 9)));
    std::uint8_t both[2];
    std::memcpy(both, &scale, 2);
    bytes.insert(bytes.end(), both, both + 2);
    for (int i = 0; i < 16; ++i) {
      bytes.push_back(static_cast<std::uint8_t>(random.integer(0, 255)));
      for (int half : {bytes.back() & 15, bytes.back() >> 4})
        expected.push_back(static_cast<float>(half - 8) * float(scale));
    }
  }
  auto y = on_device(std::vector<float>(expected.size(), -1));
  auto x = on_device(bytes);
  launch(interpreted, unpack, {}, x, static_cast<const std::uint8_t*>(x.data()),
         y.view().reshape({count, 32}));
  CHECK(contents(y) == expected);
}

TEST_CASE("a number that does not lie inside of its view with all its bytes reads as zero") {
  const auto edges = kernel("wide_edges", [](View<const std::uint16_t, 1> x, View<std::uint64_t, 1> y) {
    auto [n] = program_tile(y, BN);
    auto part = x.slice(0, 1, 8);
    Tile i = n + arange(BN) - 2;
    y.tile(n).store(load_as<std::uint64_t>(part.at(i), i != 1));
  });
  const bool interpreted = GENERATE(false, true);
  std::vector<std::uint16_t> values = {99, 1, 2, 3, 4, 5, 6, 7, 99};
  auto y = on_device(std::vector<std::uint64_t>(9, 5));
  launch(interpreted, edges, {BN = 16}, on_device(values), y);
  auto of = [](std::uint64_t a) { return a | (a + 1) << 16 | (a + 2) << 32 | (a + 3) << 48; };
  CHECK(contents(y) == std::vector<std::uint64_t>{0, 0, of(1), 0, of(3), of(4), 0, 0, 0});
}
