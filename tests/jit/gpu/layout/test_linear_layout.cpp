// Tests the algebra of linear layouts.
#include "test_seed.h"

#include <catch2/catch.hpp>
#include <kiln/jit/gpu/layout/linear_layout.h>
#include <random>

using namespace kiln::gpu;

namespace {

// The 4 x 4 tile of the example in linear_layout.h.
LinearLayout header_example() {
  // Flattened outputs: dim0 has bits 0 and 1, dim1 has bits 2 and 3.
  return LinearLayout({{in_register, 2}, {in_lane, 2}}, {{"dim0", 2}, {"dim1", 2}},
                      {0b0100, 0b0010, 0b1000, 0b0001});
}

LinearLayout random_layout(std::mt19937_64& random, LinearLayout::Dims ins, LinearLayout::Dims outs) {
  int in_bits = 0, out_bits = 0;
  for (const auto& d : ins)
    in_bits += d.bits;
  for (const auto& d : outs)
    out_bits += d.bits;
  std::vector<std::uint64_t> columns;
  for (int i = 0; i < in_bits; ++i)
    columns.push_back(random() & ((std::uint64_t{1} << out_bits) - 1));
  return LinearLayout(std::move(ins), std::move(outs), std::move(columns));
}

LinearLayout random_invertible(std::mt19937_64& random, LinearLayout::Dims ins, LinearLayout::Dims outs) {
  for (;;)
    if (LinearLayout layout = random_layout(random, ins, outs); layout.is_invertible()) return layout;
}

} // namespace

TEST_CASE("a layout is the exclusive or of its bases") {
  LinearLayout layout = header_example();
  CHECK(layout.apply({{in_register, 0}, {in_lane, 1}}) ==
        LinearLayout::Coordinates{{"dim0", 0}, {"dim1", 2}});
  CHECK(layout.apply({{in_register, 3}, {in_lane, 3}}) ==
        LinearLayout::Coordinates{{"dim0", 3}, {"dim1", 3}});
  CHECK(layout.basis(in_register, 1, "dim0") == 2);
  CHECK(layout.is_invertible());
  const auto seed = kiln::test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  LinearLayout any = random_layout(random, {{"a", 3}, {"b", 4}}, {{"x", 5}, {"y", 2}});
  for (std::uint64_t i = 0; i < 128; ++i)
    for (std::uint64_t k = 0; k < 128; ++k)
      REQUIRE(any.apply(i ^ k) == (any.apply(i) ^ any.apply(k)));
}

TEST_CASE("a product repeats its first factor as its second says") {
  LinearLayout four_each =
      LinearLayout::identity(2, in_register, "dim0") * LinearLayout::identity(3, in_lane, "dim0");
  for (std::int64_t lane = 0; lane < 8; ++lane)
    for (std::int64_t r = 0; r < 4; ++r)
      CHECK(four_each.apply({{in_register, r}, {in_lane, lane}}) ==
            LinearLayout::Coordinates{{"dim0", 4 * lane + r}});
  LinearLayout rows = four_each * LinearLayout::identity(2, in_lane, "dim1");
  CHECK(rows.in_bits(in_lane) == 5);
  CHECK(rows.apply({{in_register, 1}, {in_lane, 8 + 3}}) ==
        LinearLayout::Coordinates{{"dim0", 13}, {"dim1", 1}});
}

TEST_CASE("an inverse undoes a layout, and finds the first place of an element that has copies") {
  const auto seed = kiln::test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int trial = 0; trial < 200; ++trial) {
    LinearLayout layout = random_invertible(random, {{"a", 3}, {"b", 4}}, {{"x", 2}, {"y", 5}});
    LinearLayout there_and_back = layout.then(layout.inverse());
    for (std::uint64_t i = 0; i < 128; ++i)
      REQUIRE(there_and_back.apply(i) == i);
    CHECK(layout.inverse().inverse() == layout);
  }
  // Lanes 2 and 3 repeat what lanes 0 and 1 hold.
  LinearLayout repeated = LinearLayout::identity(2, in_register, "dim0") *
                          LinearLayout::identity(1, in_lane, "dim0") *
                          LinearLayout::zeros(1, in_lane, "dim0");
  CHECK(repeated.redundant(in_lane) == 0b10);
  CHECK(repeated.redundant(in_register) == 0);
  LinearLayout place = repeated.inverse();
  for (std::int64_t i = 0; i < 8; ++i)
    CHECK(place.apply({{"dim0", i}}) == LinearLayout::Coordinates{{in_register, i % 4}, {in_lane, i / 4}});
}

TEST_CASE("division undoes a product, and fails for what is not one") {
  const auto seed = kiln::test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int trial = 0; trial < 200; ++trial) {
    LinearLayout a = random_layout(random, {{in_register, 2}, {in_lane, 3}}, {{"dim0", 2}, {"dim1", 3}});
    LinearLayout b = random_layout(random, {{in_register, 1}, {in_lane, 2}}, {{"dim0", 3}, {"dim1", 1}});
    LinearLayout product = a * b;
    auto quotient = product.divided_by(a);
    REQUIRE(quotient);
    CHECK(*quotient == b);
  }
  LinearLayout swapped = LinearLayout({{in_register, 2}}, {{"dim0", 2}}, {2, 1});
  CHECK_FALSE(swapped.divided_by(LinearLayout::identity(1, in_register, "dim0")));
}

TEST_CASE("dimensions may be reordered, flattened, split and dropped") {
  LinearLayout layout = header_example();
  LinearLayout turned = layout.with_outs({"dim1", "dim0"});
  CHECK(turned.apply({{in_register, 3}, {in_lane, 2}}) ==
        LinearLayout::Coordinates{{"dim1", 1}, {"dim0", 3}});
  CHECK(turned.with_outs({"dim0", "dim1"}) == layout);
  CHECK(layout.flat_outs("all").apply({{in_lane, 1}}) == LinearLayout::Coordinates{{"all", 8}});
  CHECK(layout.flat_outs("all").split_out("all", {{"dim0", 2}, {"dim1", 2}}) == layout);
  LinearLayout row_sums = layout.without_out("dim1"); // the layout of sums along the rows
  CHECK(row_sums.apply({{in_register, 3}, {in_lane, 3}}) == LinearLayout::Coordinates{{"dim0", 3}});
  CHECK(row_sums.redundant(in_register) == 0b01);
  CHECK(row_sums.redundant(in_lane) == 0b01);
}

TEST_CASE("spans have bases, complements and intersections") {
  const auto seed = kiln::test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<std::uint64_t> a, b;
    for (int i = 0; i < 4; ++i)
      a.push_back(random() & 63), b.push_back(random() & 63);
    auto base = independent(a);
    for (std::uint64_t v : a)
      CHECK(spans(base, v));
    auto rest = complement(a, 6);
    CHECK(base.size() + rest.size() == 6);
    auto all = base;
    all.insert(all.end(), rest.begin(), rest.end());
    CHECK(independent(all).size() == 6);
    auto common = intersection(a, b);
    for (std::uint64_t v = 0; v < 64; ++v)
      REQUIRE(spans(common, v) == (spans(a, v) && spans(b, v)));
  }
}
