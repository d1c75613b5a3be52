// Tests the tile IR of whole-tensor expressions in the interpreter and on the CPU, against plain loops.
#include "evaluate_assign.h"
#include "jit/cpu/random_view.h"
#include "test_seed.h"

#include <catch2/catch.hpp>

#include <cmath>

using namespace kiln;
using kiln::test::evaluate;
using kiln::test::RandomArray;

namespace {

std::vector<std::int64_t> random_extents(std::mt19937_64& random, int rank, std::int64_t elements) {
  std::vector<std::int64_t> extents;
  for (int a = 0; a < rank; ++a) {
    std::int64_t most = std::max<std::int64_t>(
        1,
        a + 1 == rank ? elements : static_cast<std::int64_t>(std::pow(double(elements), 1.5 / (rank - a))));
    extents.push_back(1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most)));
    elements = std::max<std::int64_t>(1, elements / extents.back());
  }
  std::shuffle(extents.begin(), extents.end(), random);
  return extents;
}

template <int Rank, int BiasRank> void check_random_shapes(std::mt19937_64& random, int times) {
  std::normal_distribution<float> normal;
  auto draw = [&] { return normal(random); };
  for (int t = 0; t < times; ++t) {
    auto extents = random_extents(random, Rank, 3000);
    RandomArray<float, Rank> x(random, test::random_operand(random, extents, Rank), t % 2 == 0, draw);
    RandomArray<float, BiasRank> bias(random, test::random_operand(random, extents, BiasRank), t % 3 == 0,
                                      draw);
    RandomArray<float, Rank> residual(random, extents, t % 2 == 0, draw);
    RandomArray<float, Rank> out(random, extents, t % 4 == 0, [] { return -1.f; });
    auto expected = out.memory;
    float scale = normal(random);
    auto expression = relu(x.view * scale + bias.view) + residual.view;
    RandomArray<float, Rank>::each(extents, [&](const auto& i) {
      expected[static_cast<std::size_t>(&out[i] - out.memory.data())] =
          std::max(x[i] * scale + bias[i], 0.f) + residual[i];
    });
    auto before = out.memory;
    evaluate(out.view, expression, true);
    REQUIRE(out.memory == expected);
    out.memory = before; // the view still points to this memory
    evaluate(out.view, expression, false);
    REQUIRE(out.memory == expected);
  }
}

// Checks expressions on rows that are narrower than a vector, where operands repeat rows and columns.
template <class T, int Rank> void check_narrow_rows(std::mt19937_64& random, int times) {
  std::uniform_int_distribution<int> small(-8, 8); // so that results are exact
  auto draw = [&] { return T(static_cast<float>(small(random))); };
  for (int t = 0; t < times; ++t) {
    std::vector<std::int64_t> extents{1 + static_cast<std::int64_t>(random() % 900),
                                      2 + static_cast<std::int64_t>(random() % 15)};
    if (Rank == 3) extents.insert(extents.begin(), 1 + static_cast<std::int64_t>(random() % 3));
    auto row = extents, column = extents;
    for (std::size_t a = 0; a + 1 < extents.size(); ++a)
      row[a] = 1;
    column.back() = 1;
    RandomArray<T, Rank> x(random, extents, t % 4 != 0, draw), out(random, extents, t % 5 != 0, draw);
    RandomArray<T, Rank> bias(random, row, t % 2 == 0, draw), scale(random, column, t % 3 == 0, draw);
    const auto before = out.memory;
    auto check = [&](auto expression, auto reference) {
      auto expected = before;
      RandomArray<T, Rank>::each(extents, [&](const auto& i) {
        auto of_row = i, of_column = i;
        for (std::size_t a = 0; a + 1 < extents.size(); ++a)
          of_row[a] = 0;
        of_column[extents.size() - 1] = 0;
        expected[static_cast<std::size_t>(&out[i] - out.memory.data())] =
            T(reference(float(x[i]), float(bias[of_row]), float(scale[of_column])));
      });
      for (bool interpreted : {false, true}) {
        std::copy(before.begin(), before.end(), out.memory.begin()); // the view points to this memory
        evaluate(out.view, expression, interpreted);
        CAPTURE(t, interpreted, extents.back(), extents[extents.size() - 2]);
        REQUIRE(std::equal(expected.begin(), expected.end(), out.memory.begin(),
                           [](T a, T b) { return float(a) == float(b); }));
      }
    };
    check(x.view + bias.view, [](float v, float b, float) { return v + b; });
    check(x.view * scale.view, [](float v, float, float s) { return v * s; });
    check(bias.view * scale.view, [](float, float b, float s) { return b * s; });
    check(x.view + bias.view * scale.view, [](float v, float b, float s) { return v + b * s; });
  }
}

// Checks expressions that make narrow rows of planes, one for each column.
template <class T> void check_planes(std::mt19937_64& random, int times) {
  std::uniform_int_distribution<int> small(-8, 8); // so that results are exact
  auto draw = [&] { return T(static_cast<float>(small(random))); };
  for (int t = 0; t < times; ++t) {
    const std::int64_t images = 1 + t % 3, columns = 2 + static_cast<std::int64_t>(random() % 15);
    const std::int64_t rows = 1 + static_cast<std::int64_t>(random() % 900), gap = t % 4 == 0 ? 3 : 0;
    const std::vector<std::int64_t> extents{images, rows, columns};
    RandomArray<T, 3> planes(random, {images, columns, rows}, true, draw),
        bias(random, {1, 1, columns}, true, draw);
    RandomArray<T, 3> scale(random, {1, rows, 1}, true, draw);
    RandomArray<T, 3> whole(random, {images, rows, columns + gap}, true, draw);
    const auto x = planes.view.permute({0, 2, 1}), out = whole.view.slice(2, 0, columns);
    const auto before = whole.memory;
    auto check = [&](auto expression, auto reference) {
      auto expected = before;
      RandomArray<T, 3>::each(extents, [&](const auto& i) {
        const float v = float(planes[{i[0], i[2], i[1]}]);
        auto& y = expected[static_cast<std::size_t>(&whole[i] - whole.memory.data())];
        y = T(reference(v, float(bias[{0, 0, i[2]}]), float(scale[{0, i[1], 0}]), float(y)));
      });
      for (bool interpreted : {false, true}) {
        std::copy(before.begin(), before.end(), whole.memory.begin()); // the view points to this memory
        evaluate(out, expression, interpreted);
        CAPTURE(t, interpreted, images, rows, columns, gap);
        REQUIRE(std::equal(expected.begin(), expected.end(), whole.memory.begin(),
                           [](T a, T b) { return float(a) == float(b); }));
      }
    };
    check(x + bias.view, [](float v, float b, float, float) { return v + b; });
    check(x + bias.view + scale.view, [](float v, float b, float s, float) { return v + b + s; });
    check(x + out, [](float v, float, float, float y) { return v + y; });
  }
}

} // namespace

TEST_CASE("planes that become the columns of narrow rows equal the result of plain loops") {
  auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  SECTION("f32") { check_planes<float>(random, 12); }
  SECTION("f64") { check_planes<double>(random, 3); }
  SECTION("bf16") { check_planes<bf16>(random, 4); }
  SECTION("f16") { check_planes<f16>(random, 4); }
  SECTION("i8") { check_planes<std::int8_t>(random, 4); }
}

TEST_CASE("vectors lie along planes that become the columns of narrow rows") {
  std::vector<float> a(3 * 1000), b(a.size());
  TensorView planes(a, {3, 1000}), out(b, {1000, 3});
  auto whole = detail::as_whole_of<float>(planes.transpose() * 2);
  detail::AssignOperand operands[decltype(whole)::leaves];
  detail::AssignOperand* next = operands;
  whole.gather(next);
  detail::AssignPlan plan;
  detail::plan_assign(plan, detail::assign_site<float, decltype(whole)>,
                      {out.data(), out.rank(), out.extents(), out.strides()}, operands,
                      detail::Location::current());
  detail::choose_tile(plan, Device::cpu());
  REQUIRE(plan.rank == 2);
  CHECK(plan.extents[0] == 3);
  CHECK(plan.tile[0] == 3);
  CHECK(plan.views[0].strides[1] == 1);
}

TEST_CASE("rows that are narrower than a vector equal the result of plain loops") {
  auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  check_narrow_rows<float, 2>(random, 12);
  check_narrow_rows<float, 3>(random, 6);
  check_narrow_rows<bf16, 2>(random, 6);
  check_narrow_rows<double, 2>(random, 4);
}

TEST_CASE("an expression over views of any rank, strides and broadcasting equals the result of plain loops") {
  auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  check_random_shapes<1, 1>(random, 8);
  check_random_shapes<2, 1>(random, 12);
  check_random_shapes<3, 2>(random, 8);
  check_random_shapes<4, 4>(random, 6);
  check_random_shapes<8, 3>(random, 4);
}

TEST_CASE("axes that are contiguous in all operands are merged") {
  std::vector<float> a(24), b(24), out(24);
  TensorView x(a, {2, 3, 4}), y(b, {2, 3, 4}), z(out, {2, 3, 4});
  auto rank_of = [](auto out, auto whole) {
    detail::AssignOperand operands[decltype(whole)::leaves];
    detail::AssignOperand* next = operands;
    whole.gather(next);
    detail::AssignPlan plan;
    detail::plan_assign(plan, detail::assign_site<float, decltype(whole)>,
                        {out.data(), out.rank(), out.extents(), out.strides()}, operands,
                        detail::Location::current());
    return plan.rank;
  };
  CHECK(rank_of(z, x + y) == 1);
  CHECK(rank_of(z.permute({2, 0, 1}), x.permute({2, 0, 1}) + y.permute({2, 0, 1})) == 1);
  CHECK(rank_of(z, x + y.slice(0, 0, 1)) == 2);
  CHECK(rank_of(z, x + y.slice(1, 0, 1)) == 3);
  CHECK(rank_of(z, x + y.slice(2, 0, 1)) == 2);
  CHECK(rank_of(z.slice(2, 0, 2), x.slice(2, 0, 2) * 2) == 2);
  CHECK(rank_of(z.slice(0, 1, 2), x.slice(0, 1, 2) + TensorView(a.data(), {1})) == 1);
}
