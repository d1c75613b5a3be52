// Tests atomic operations on rows by index: with rows that repeat, in one thread and in several, aligned or
// not, every update arrives once, and the old values are those before each update.
#include "random_numbers.h"

#include <catch2/catch.hpp>
#include <kiln/kiln.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

using namespace kiln;

KILN_DIM(BN);
KILN_DIM(BD);

namespace {

using Rows = View<const std::int32_t, 1>;

enum Kind { Add, Min, Max, And, Or, Xor, Exchange };

template <int K, class P, class V, class M> auto apply(P places, V values, M mask) {
  if constexpr (K == Add) return places.atomic_add(values, mask);
  if constexpr (K == Min) return places.atomic_min(values, mask);
  if constexpr (K == Max) return places.atomic_max(values, mask);
  if constexpr (K == And) return places.atomic_and(values, mask);
  if constexpr (K == Or) return places.atomic_or(values, mask);
  if constexpr (K == Xor) return places.atomic_xor(values, mask);
  if constexpr (K == Exchange) return places.atomic_exchange(values, mask);
}

// Updates rows of `h`, but not row 3, and stores the old values if Keep is set.
template <class T, int K, bool Keep> const auto& updates_kernel() {
  static const auto updates =
      kernel("updates", [](Rows rows, View<const T, 2> x, View<T, 2> h, View<T, 2> old) {
        auto [i, j] = program_tile(x, BN, BD);
        Tile row = cast<std::int64_t>(rows.tile(i).load_or(-1));
        Tile values = x.tile(i, j).load();
        Tile kept = expand<1>(row) != 3;
        auto places = h.at(expand<1>(row), expand<0>(j + arange(BD)));
        Tile before = apply<K>(places, values, kept);
        if constexpr (Keep) old.tile(i, j).store(before);
      });
  return updates;
}

template <class T> T combined(int kind, T a, T b) {
  if constexpr (std::is_class_v<T>) { // narrow floats
    if (kind == Add) return T(static_cast<float>(a) + static_cast<float>(b));
  } else {
    if (kind == Add) return static_cast<T>(a + b);
  }
  if (kind == Min) return b < a ? b : a;
  if (kind == Max) return a < b ? b : a;
  if constexpr (std::is_integral_v<T>) {
    if (kind == And) return static_cast<T>(a & b);
    if (kind == Or) return static_cast<T>(a | b);
    if (kind == Xor) return static_cast<T>(a ^ b);
  }
  return b;
}

struct Shape {
  std::int64_t count, columns, table, stride, first;
};

Shape random_shape(test::Random& random) {
  const std::int64_t widths[] = {1, 2, 3, 8, 16, 17, 33, 64, 65};
  const std::int64_t columns = widths[random.integer(0, 8)];
  return {random.integer(1, 600), columns, random.integer(1, 12),
          columns + random.integer(0, 1) * random.integer(0, 20),
          random.integer(0, 1) * random.integer(0, 5)};
}

template <class T> double as_double(T v) { return static_cast<double>(static_cast<float>(v)); }

// Small integers, whose sums every dtype but the narrowest floats can represent.
template <class T> T random_value(test::Random& random) { return static_cast<T>(random.integer(0, 3)); }

template <class T, int K> void check(test::Random& random) {
  const Shape s = random_shape(random);
  const std::int64_t tile_rows = random.integer(1, 40), tile_columns = random.integer(1, 70);
  CAPTURE(K, s.count, s.columns, s.table, s.stride, s.first, tile_rows, tile_columns);
  std::vector<std::int32_t> rows(static_cast<std::size_t>(s.count));
  for (auto& row : rows)
    row = static_cast<std::int32_t>(random.integer(-1, s.table)); // both ends are outside
  std::vector<T> x(static_cast<std::size_t>(s.count * s.columns));
  for (T& v : x)
    v = random_value<T>(random);
  std::vector<T> memory(static_cast<std::size_t>(s.first + s.table * s.stride + 64), T(1));
  std::vector<T> expected = memory, old(x.size(), T(9)), same_table = memory;
  auto updated = [&](std::int64_t row) { return row >= 0 && row < s.table && row != 3; };
  for (std::int64_t i = 0; i < s.count; ++i)
    for (std::int64_t c = 0; c < s.columns; ++c)
      if (const std::int64_t row = rows[static_cast<std::size_t>(i)]; updated(row)) {
        T& v = expected[static_cast<std::size_t>(s.first + row * s.stride + c)];
        v = combined<T>(K, v, x[static_cast<std::size_t>(i * s.columns + c)]);
      }
  Stream stream;
  auto launch = [&](const auto& kernel, std::vector<T>& table) {
    kernel.launch(stream, {BN = tile_rows, BD = tile_columns}, TensorView<const std::int32_t, 1>(rows),
                  TensorView<const T, 2>(x.data(), {s.count, s.columns}),
                  TensorView<T, 2>(table.data() + s.first, {s.table, s.columns}, {s.stride, 1}),
                  TensorView<T, 2>(old.data(), {s.count, s.columns}));
    stream.synchronize();
  };
  if constexpr (K != Exchange) { // the last of several exchanges is any one of them
    launch(updates_kernel<T, K, false>(), memory);
    CHECK(memory == expected);
  }
  launch(updates_kernel<T, K, true>(), same_table);
  if constexpr (K != Exchange) CHECK(same_table == expected);
  // The updates of an element can be put into an order in which each finds what the one before has left.
  for (std::int64_t row = 0; row < s.table; ++row)
    for (std::int64_t c = 0; c < s.columns; ++c) {
      std::multimap<double, double> left; // by old value: what the update leaves
      for (std::int64_t i = 0; i < s.count; ++i) {
        const auto at = static_cast<std::size_t>(i * s.columns + c);
        if (rows[static_cast<std::size_t>(i)] != row) continue;
        if (!updated(row)) {
          CHECK(old[at] == T(0));
          continue;
        }
        left.emplace(as_double(old[at]), as_double(combined<T>(K, old[at], x[at])));
      }
      // Each value is left as often as it is found, except for the first and the last one.
      std::map<double, int> balance;
      for (const auto& [before, after] : left)
        ++balance[before], --balance[after];
      ++balance[as_double(same_table[static_cast<std::size_t>(s.first + row * s.stride + c)])];
      --balance[1];
      for (const auto& [value, times] : balance)
        if (times != 0) FAIL_CHECK("element (" << row << ", " << c << "): value " << value << ", " << times);
    }
}

template <class T> void check_sums_and_order(test::Random& random) {
  check<T, Add>(random);
  check<T, Min>(random);
  check<T, Max>(random);
  check<T, Exchange>(random);
}

} // namespace

TEMPLATE_TEST_CASE("updates of repeated rows of integers arrive once", "", std::int8_t, std::uint16_t,
                   std::int32_t, std::uint64_t) {
  test::Random random;
  KILN_SEED(random);
  for (int i = 0; i < 4; ++i) {
    check_sums_and_order<TestType>(random);
    check<TestType, And>(random);
    check<TestType, Or>(random);
    check<TestType, Xor>(random);
  }
}

TEMPLATE_TEST_CASE("updates of repeated rows of floats arrive once", "", float, double) {
  test::Random random;
  KILN_SEED(random);
  for (int i = 0; i < 4; ++i)
    check_sums_and_order<TestType>(random);
}

TEMPLATE_TEST_CASE("updates of repeated rows of narrow floats arrive once", "", f16, bf16) {
  test::Random random;
  KILN_SEED(random);
  for (int i = 0; i < 4; ++i) {
    check<TestType, Min>(random);
    check<TestType, Max>(random);
    check<TestType, Exchange>(random);
    if (std::is_same_v<TestType, f16>) check<TestType, Add>(random); // bf16 cannot represent all sums
  }
}

namespace {

const auto add_rows = kernel("add_rows", [](Rows rows, View<const float, 2> x, View<float, 2> h) {
  auto [i, j] = program_tile(x, BN, BD);
  Tile row = cast<std::int64_t>(rows.tile(i).load_or(-1));
  h.at(expand<1>(row), expand<0>(j + arange(BD))).atomic_add(x.tile(i, j).load());
});

} // namespace

// Each launch is short and runs on its stream's thread, so that it would be the only one without the others.
TEST_CASE("launches of several streams lose no update of one table") {
  constexpr std::int64_t count = 8, columns = 64, table = 3;
  constexpr int streams = 3, launches = 2000;
  std::vector<std::int32_t> rows{0, 1, 2, 1, 1, 0, 2, 1};
  std::vector<float> x(count * columns, 1), h(table * columns, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < streams; ++t)
    threads.emplace_back([&] {
      Stream stream;
      for (int k = 0; k < launches; ++k)
        add_rows.launch(stream, {BN = 8, BD = 64}, TensorView<const std::int32_t, 1>(rows),
                        TensorView<const float, 2>(x.data(), {count, columns}),
                        TensorView<float, 2>(h.data(), {table, columns}));
      stream.synchronize();
    });
  for (auto& thread : threads)
    thread.join();
  const float times[] = {2, 4, 2};
  for (std::int64_t i = 0; i < table * columns; ++i)
    REQUIRE(h[static_cast<std::size_t>(i)] == times[i / columns] * streams * launches);
}

TEST_CASE("a launch of many programs adds rows of a large table once") {
  constexpr std::int64_t count = 20000, columns = 48, table = 5000;
  test::Random random;
  KILN_SEED(random);
  std::vector<std::int32_t> rows(count);
  std::vector<float> x(count * columns), h(table * columns, 0);
  std::vector<double> expected(h.size(), 0);
  for (auto& row : rows)
    row =
        static_cast<std::int32_t>(random.integer(0, 1) ? random.integer(0, 9) : random.integer(0, table - 1));
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(random.integer(-8, 8));
    expected[static_cast<std::size_t>(rows[i / columns]) * columns + i % columns] += x[i];
  }
  Stream stream;
  add_rows.launch(stream, {BN = 16, BD = 16}, TensorView<const std::int32_t, 1>(rows),
                  TensorView<const float, 2>(x.data(), {count, columns}),
                  TensorView<float, 2>(h.data(), {table, columns}));
  stream.synchronize();
  for (std::size_t i = 0; i < h.size(); ++i)
    REQUIRE(h[i] == expected[i]);
}
