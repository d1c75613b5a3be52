// Tests expressions on narrow rows of wider matrices: padding is not written, and does not influence results.
#include "dsl/guarded_memory.h"
#include "evaluate_assign.h"
#include "jit/cpu/other_cpus.h"
#include "test_seed.h"

#include <catch2/catch.hpp>
#include <kiln/kiln.h>

#include <cstring>
#include <limits>

using namespace kiln;
using kiln::test::GuardedMemory;

namespace {

using Place = GuardedMemory::Place;

// Matrices, one after the other, of rows that are `apart` elements apart. The memory has no byte before the
// first element or after the last one.
template <class T> struct Rows {
  std::int64_t matrices, rows, width, apart, matrix;
  std::size_t count;
  GuardedMemory memory;

  Rows(std::int64_t count_of_matrices, std::int64_t row_count, std::int64_t columns, std::int64_t row_stride,
       std::int64_t gap, Place place)
      : matrices(count_of_matrices), rows(row_count), width(columns), apart(row_stride),
        matrix((rows - 1) * apart + width + gap),
        count(static_cast<std::size_t>((matrices - 1) * matrix + (rows - 1) * apart + width)),
        memory(count * sizeof(T), place, alignof(T)) {}
  T* data() const { return reinterpret_cast<T*>(memory.data()); }
  T& at(std::int64_t m, std::int64_t r, std::int64_t c) const { return data()[m * matrix + r * apart + c]; }
  TensorView<T, 3> view() const { return {data(), {matrices, rows, width}, {matrix, apart, 1}}; }

  // Writes `padding` to all elements, and then draws those of the rows.
  template <class Draw> void fill(T padding, Draw draw) {
    std::fill_n(data(), count, padding);
    for (std::int64_t m = 0; m < matrices; ++m)
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < width; ++c)
          at(m, r, c) = draw();
  }
};

template <class T> T poison() {
  return std::numeric_limits<T>::is_specialized && !std::numeric_limits<T>::has_quiet_NaN
             ? T(-77)
             : T(std::numeric_limits<float>::quiet_NaN());
}

template <class T> void check_padded_rows(std::mt19937_64& random, const cpu::Target& target, int times) {
  std::uniform_int_distribution<int> small(-8, 8); // so that results are exact
  auto draw = [&] { return T(static_cast<float>(small(random))); };
  auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  for (int t = 0; t < times; ++t) {
    const std::int64_t matrices = 1 + below(2), rows = 16 + below(1200), width = 2 + below(14);
    auto apart = [&] { return below(4) == 0 ? width : width + 1 + below(below(3) == 0 ? 60 : 17 - width); };
    const std::int64_t of_out = apart(), of_x = below(2) == 0 ? of_out : apart();
    auto place = [&] { return below(2) == 0 ? Place::AtStart : Place::AtEnd; };
    Rows<T> x(matrices, rows, width, of_x, below(3), place()), y(matrices, rows, width, apart(), 0, place());
    Rows<T> out(matrices, rows, width, of_out, below(3), place());
    Rows<T> bias(1, 1, width, width, 0, place()), scale(1, rows, 1, 1, 0, place());
    x.fill(poison<T>(), draw), y.fill(poison<T>(), draw), out.fill(poison<T>(), draw);
    bias.fill(T(0.f), draw), scale.fill(T(0.f), draw);
    const std::vector<T> before(out.data(), out.data() + out.count);
    auto check = [&](auto expression, auto reference) {
      auto expected = before;
      for (std::int64_t m = 0; m < matrices; ++m)
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = 0; c < width; ++c)
            expected[static_cast<std::size_t>(m * out.matrix + r * out.apart + c)] =
                T(reference(float(x.at(m, r, c)), float(y.at(m, r, c)), float(bias.at(0, 0, c)),
                            float(scale.at(0, r, 0))));
      for (bool interpreted : {false, true}) {
        if (interpreted && t % 4 != 0) continue;
        std::copy(before.begin(), before.end(), out.data());
        test::evaluate(out.view(), expression, interpreted, target);
        CAPTURE(t, target.cpu, interpreted, matrices, rows, width, of_out, of_x, y.apart);
        bool same = true; // NaNs of the padding are equal if their bits are
        for (std::size_t i = 0; i < out.count; ++i)
          same &= std::memcmp(&expected[i], out.data() + i, sizeof(T)) == 0 ||
                  float(expected[i]) == float(out.data()[i]);
        REQUIRE(same);
      }
    };
    check(abs(x.view()), [](float v, float, float, float) { return std::abs(v); });
    check(x.view() + bias.view(), [](float v, float, float b, float) { return v + b; });
    check(x.view() * scale.view() + y.view(), [](float v, float w, float, float s) { return v * s + w; });
    check(bias.view() * scale.view(), [](float, float, float b, float s) { return b * s; });
    if (of_x == of_out) { // in place
      std::copy(before.begin(), before.end(), out.data());
      auto expected = before;
      for (std::int64_t m = 0; m < matrices; ++m)
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = 0; c < width; ++c) {
            T& e = expected[static_cast<std::size_t>(m * out.matrix + r * out.apart + c)];
            e = T(float(e) + float(bias.at(0, 0, c)));
          }
      test::evaluate(out.view(), out.view() + bias.view(), false, target);
      bool same = true;
      for (std::size_t i = 0; i < out.count; ++i)
        same &= std::memcmp(&expected[i], out.data() + i, sizeof(T)) == 0 ||
                float(expected[i]) == float(out.data()[i]);
      CAPTURE(t, target.cpu, matrices, rows, width, of_out);
      REQUIRE(same);
    }
  }
}

} // namespace

TEST_CASE("narrow rows of wider matrices equal the result of plain loops, and their padding remains") {
  auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const char* name : {"host", "haswell", "x86-64"}) {
    const auto target = test::runnable_target(name);
    if (!target) continue;
    check_padded_rows<float>(random, *target, 2);
    check_padded_rows<bf16>(random, *target, 2);
    check_padded_rows<f16>(random, *target, 1);
    check_padded_rows<std::int8_t>(random, *target, 2);
    check_padded_rows<double>(random, *target, 1);
  }
}

TEST_CASE("narrow rows that a kernel loads with a mask of rows or columns and reshapes are masked") {
  const auto masked = kernel("masked", [](View<const float, 2> x, View<float, 2> y) {
    Tile r = expand<1>(arange(512_c));
    Tile c = expand<0>(arange(3_c));
    auto rows = x.tile(offset(512_c, 0), offset(3_c, 0));
    auto store = [&](int line, auto mask) {
      y.tile(line, offset(1536_c, 0)).store(reshape(rows.load(broadcast(mask, 512_c, 3_c)), 1536_c));
    };
    store(0, r < 300);
    store(1, c < 2);
    store(2, (c < 2) & (r < 300));
    store(3, c != 1);
  });
  std::vector<float> x(400 * 5), y(4 * 1530);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(i + 1);
  Stream stream;
  masked.launch(stream, {}, Grid{1}, TensorView<const float, 2>(x.data() + 1, {400, 3}, {5, 1}),
                TensorView(y, {4, 1530}));
  stream.synchronize();
  for (int e = 0; e < 1530; ++e) {
    const int r = e / 3, c = e % 3;
    const float v = r < 400 ? x[static_cast<std::size_t>(5 * r + 1 + c)] : 0;
    const bool wanted[] = {r < 300, c < 2, c < 2 && r < 300, c != 1};
    for (int line = 0; line < 4; ++line) {
      CAPTURE(line, r, c);
      REQUIRE(y[static_cast<std::size_t>(1530 * line + e)] == (wanted[line] ? v : 0));
    }
  }
}
