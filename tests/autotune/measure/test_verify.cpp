// Tests that a winner is checked on other inputs: configs that are right in trials and wrong elsewhere.
#include "measured.h"

#include <kiln/autotune/measure/smaller_extents.h>
#include <kiln/autotune/measure/verify.h>

#include <cstring>

using namespace kiln;
using namespace kiln::test;
using namespace kiln::tune;

namespace {

constexpr std::int64_t n = 1003;

// A kernel with body `f`. All have the same name, so that one can replace another for some config.
template <class F> auto copies_with(F f) {
  return kernel("copies", [f](View<const float, 1> x, View<float, 1> out) {
    auto [i] = program_tile(out, BN);
    Tile<float, BN> t = x.tile(i).load();
    out.tile(i).store(f(t, cast<float>(out.size())));
  });
}

const auto copies = copies_with([](auto t, auto) { return t; });
const auto drops_nan = copies_with([](auto t, auto) { return where(t == t, t, 0.0f); });
const auto rounds_tiny_up = copies_with([](auto t, auto) { return where(abs(t) < 1e-30f, 1.0f, t); });
const auto knows_the_size = copies_with([](auto t, auto size) { return t + (size - static_cast<float>(n)); });

// The same for integers.
template <class F> auto integers_with(F f) {
  return kernel("integers",
                [f](View<const std::int32_t, 1> x, View<const bool, 1> kept, View<std::int32_t, 1> out) {
                  auto [i] = program_tile(out, BN);
                  out.tile(i).store(f(x.tile(i).load(), kept.tile(i).load()));
                });
}

// Returns the result of confirm() for the config {BN = 64} alone, whose kernel is `other`. With other configs
// it is `right`.
template <class R, class K>
Measurement confirmed(const R& right, const K& other, std::vector<Argument> arguments) {
  Space space;
  space.pow2(BN, 32, 128).seed({{"BN", 32}});
  BoundSpace bound(space, {.sizes = {{"N", n}}, .kind = "f32"}, Device::cpu());
  Workload w;
  w.ir = [&](const Config& config) {
    return ir::print(config.get("BN") == 64 ? *other.record(config) : *right.record(config));
  };
  w.arguments = std::move(arguments);
  LiveMeasurer measurer(w, bound, Config::parse("BN=32"), quick_options());
  const std::vector<Point> points{*bound.point(Config::parse("BN=64"))};
  const auto trials = measurer.measure(points);
  REQUIRE(trials.size() == 1);
  INFO(trials[0].error);
  CHECK(trials[0].ok());
  const auto results = measurer.confirm(points);
  REQUIRE(results.size() == 1);
  return results[0];
}

template <class K> Measurement confirmed(const K& other) {
  return confirmed(copies, other,
                   {tensor_argument(DType::F32, {n}, true), tensor_argument(DType::F32, {n}, false)});
}

// `x` and `kept` are constant.
template <class R, class K> Measurement confirmed_integers(const R& right, const K& other) {
  Argument x = tensor_argument(DType::I32, {n}, true), kept = tensor_argument(DType::Bool, {n}, true);
  for (Argument* a : {&x, &kept}) {
    a->fill.kind = Fill::Kind::bytes;
    auto bytes = std::make_shared<SharedBytes>(static_cast<std::size_t>(bytes_of(*a, 0).high));
    std::memset(bytes->data(), 1, bytes->size());
    a->fill.bytes = std::move(bytes);
  }
  return confirmed(right, other, {x, kept, tensor_argument(DType::I32, {n}, false)});
}

} // namespace

TEST_CASE("a winner that is right everywhere is verified four times") {
  const Measurement m = confirmed(copies);
  INFO(m.error);
  CHECK(m.ok());
  CHECK(m.facts.at("verified") == 4);
}

TEST_CASE("a winner that is wrong on inputs that no trial had is rejected with a description of the inputs") {
  struct Case {
    Measurement result;
    std::string words;
  };
  for (const auto& [result, words] :
       {Case{confirmed(drops_nan), "with inputs with NaN and infinities: element "},
        Case{confirmed(rounds_tiny_up),
             "with inputs with zeros, subnormal numbers, and other signs and magnitudes: element "},
        Case{confirmed(knows_the_size), "with arrays that are a little smaller: element "}}) {
    INFO(result.error);
    CHECK(result.status == Status::wrong_result);
    CHECK(result.error.substr(0, words.size()) == words);
  }
}

TEST_CASE("a winner that is wrong for negative integers, or where integers and masks vary, is rejected") {
  const auto shifts = integers_with([](auto t, auto kept) { return where(kept, t >> 1, 0); });
  const auto unsigned_shifts = integers_with(
      [](auto t, auto kept) { return where(kept, cast<std::int32_t>(cast<std::uint32_t>(t) >> 1), 0); });
  const auto knows_the_mask = integers_with([](auto t, auto) { return t >> 1; });
  const auto knows_the_value =
      integers_with([](auto t, auto kept) { return where(kept, (t - t) + (0x01010101 >> 1), 0); });
  CHECK(confirmed_integers(shifts, shifts).ok());
  for (const Measurement& m :
       {confirmed_integers(shifts, unsigned_shifts), confirmed_integers(shifts, knows_the_mask),
        confirmed_integers(shifts, knows_the_value)}) {
    INFO(m.error);
    CHECK(m.status == Status::wrong_result);
    CHECK_THAT(m.error, Catch::StartsWith(
                            "with inputs with zeros, subnormal numbers, and other signs and magnitudes"));
  }
}

TEST_CASE("NaN and infinities may spread differently in products with other tiles") {
  BoundSpace space(matmul_space(), {.sizes = {{"M", 65}, {"N", 70}, {"K", 33}}, .kind = "f32"},
                   Device::cpu());
  LiveMeasurer measurer(matmul_workload(65, 70, 33), space, Config::parse("BM=32,BN=32,BK=32"),
                        quick_options());
  const std::vector<Point> points{*space.point(Config::parse("BM=16,BN=64,BK=8"))};
  REQUIRE(measurer.measure(points).size() == 1);
  const auto results = measurer.confirm(points);
  REQUIRE(results.size() == 1);
  INFO(results[0].error);
  CHECK(results[0].ok());
  CHECK(results[0].facts.at("verified") == 4);
}

TEST_CASE("smaller arguments keep equal extents equal, and keep strides and small extents") {
  const auto made = ragged({tensor_argument(DType::F32, {64, 2}, true), scalar_argument(DType::I64, 64),
                            scalar_argument(DType::I64, 65), scalar_argument(DType::F32, 64),
                            tensor_argument(DType::F32, {2, 64, 9, 0, 1}, false)},
                           std::vector<bool>(5));
  REQUIRE(made);
  using Sizes = std::vector<std::int64_t>;
  CHECK((*made)[0].extents == Sizes{61, 2});
  CHECK((*made)[0].strides == Sizes{2, 1});
  CHECK((*made)[1].word == 61);
  CHECK((*made)[2].word == 65);
  CHECK((*made)[3].word == scalar_argument(DType::F32, 64).word);
  CHECK((*made)[4].extents == Sizes{2, 61, 8, 0, 1});

  Argument indices = tensor_argument(DType::I32, {64}, true);
  indices.fill.kind = Fill::Kind::range;
  CHECK_FALSE(ragged({indices}, {true}));
  Argument pointer;
  pointer.kind = Argument::Kind::pointer;
  CHECK_FALSE(ragged({pointer}, {false}));
}

TEST_CASE("a winner that ignores a scalar is rejected, and one that does not is verified once more") {
  const auto scaled_with = [](auto f) {
    return kernel("scaled", [f](View<const float, 1> x, Scalar<float> alpha, Scalar<std::int32_t> negated,
                                View<float, 1> out) {
      auto [i] = program_tile(out, BN);
      Tile<float, BN> t = x.tile(i).load();
      out.tile(i).store(f(t, alpha, negated));
    });
  };
  const auto right =
      scaled_with([](auto t, auto alpha, auto negated) { return where(negated != 0, -t, t) * alpha; });
  const auto ignores_alpha =
      scaled_with([](auto t, auto, auto negated) { return where(negated != 0, -t, t); });
  const auto ignores_flag = scaled_with([](auto t, auto alpha, auto) { return t * alpha; });
  std::vector<Argument> arguments{tensor_argument(DType::F32, {n}, true), scalar_argument(DType::F32, 1),
                                  scalar_argument(DType::I32, 0), tensor_argument(DType::F32, {n}, false)};
  const Measurement same = confirmed(right, right, arguments);
  INFO(same.error);
  CHECK(same.ok());
  CHECK(same.facts.at("verified") == 5);
  for (const Measurement& m :
       {confirmed(right, ignores_alpha, arguments), confirmed(right, ignores_flag, arguments)}) {
    CHECK(m.status == Status::wrong_result);
    CHECK_THAT(m.error, Catch::StartsWith("with other values of scalars: element "));
  }
  arguments[1].as_given = true;
  CHECK(confirmed(right, ignores_alpha, arguments).ok());
}

TEST_CASE("a winner that is wrong for another number of integers is rejected if they are only data") {
  const auto sized = [](auto f) {
    return kernel("sized", [f](View<const std::int32_t, 1> x, View<std::int32_t, 1> out) {
      auto [i] = program_tile(out, BN);
      out.tile(i).store(x.tile(i).load() + f(cast<std::int32_t>(out.size())));
    });
  };
  const auto right = sized([](auto size) { return size - size; });
  const auto wrong = sized([](auto size) { return size - static_cast<std::int32_t>(n); });
  Argument x = tensor_argument(DType::I32, {n}, true);
  x.fill.kind = Fill::Kind::bytes;
  auto bytes = std::make_shared<SharedBytes>(std::size_t{4} * n);
  for (std::int32_t i = 0; i < n; ++i)
    std::memcpy(bytes->data() + 4 * i, &i, 4);
  x.fill.bytes = bytes;
  const std::vector<Argument> lengths{x, tensor_argument(DType::I32, {n}, false)};
  CHECK(
      confirmed(right, wrong, lengths).ok()); // 1001 and 1002 could be lengths, so that shapes do not change
  for (std::int32_t i = 0; i < n; ++i) {
    const std::int32_t value = 7 * (i % 100);
    std::memcpy(bytes->data() + 4 * i, &value, 4);
  }
  CHECK(confirmed(right, right, lengths).ok());
  const Measurement m = confirmed(right, wrong, lengths);
  CHECK(m.status == Status::wrong_result);
  CHECK_THAT(m.error, Catch::StartsWith("with arrays that are a little smaller: element "));
}

TEST_CASE("inputs that must stay as given get no special values, and keep their shape") {
  std::vector<Argument> arguments{tensor_argument(DType::F32, {n}, true),
                                  tensor_argument(DType::F32, {n}, false)};
  CHECK_FALSE(confirmed(copies, drops_nan, arguments).ok());
  arguments[0].as_given = true;
  for (const Measurement& m :
       {confirmed(copies, drops_nan, arguments), confirmed(copies, rounds_tiny_up, arguments),
        confirmed(copies, knows_the_size, arguments)}) {
    INFO(m.error);
    CHECK(m.ok());
  }
}

TEST_CASE("a kernel is only verified on variations that its inputs have") {
  const auto updates = kernel("updates", [](View<float, 1> y, Scalar<float> by) {
    auto [i] = program_tile(y, BN);
    y.tile(i).store(y.tile(i).load() * by);
  });
  const std::vector<Argument> one{tensor_argument(DType::F32, {n}, true),
                                  tensor_argument(DType::F32, {n}, false)},
      other{tensor_argument(DType::F32, {n}, false), scalar_argument(DType::F32, 2)};
  const auto of_copies = copies.record({BN = 32}), of_updates = updates.record({BN = 32});
  for (Twist twist : all_twists) {
    const bool is_new = twist == Twist::scalars || twist == Twist::repeated;
    CHECK(applies(twist, one, {}, *of_copies) == !is_new);
    CHECK(applies(twist, other, {}, *of_updates));
  }
}

TEST_CASE("related extents become smaller in proportion, and independent ones each alone") {
  const auto view = [](std::vector<std::int64_t> extents) {
    return tensor_argument(DType::F32, std::move(extents), true);
  };
  using Map = std::map<std::int64_t, std::int64_t>;
  CHECK(smaller_extents({view({500, 256}), view({500, 8})}) == Map{{8, 7}, {256, 224}, {500, 497}});
  CHECK(smaller_extents({view({4000}), view({2000})}) == Map{{2000, 1997}, {4000, 3994}});
  CHECK(smaller_extents({view({1024, 64}), view({64}), view({1024})}) == Map{{64, 61}, {1024, 1021}});
  CHECK(smaller_extents({view({1024, 4}), view({1024})}) == Map{{4, 3}, {1024, 1021}});
  CHECK(smaller_extents({view({256, 256}), view({256, 8})}) == Map{{8, 7}, {256, 224}});
  const Config config{{"BN", 512}, {"BM", 4}, {"num_warps", 2}};
  CHECK(smaller_extents({view({4096, 64}), view({1003})}, &config) ==
        Map{{64, 64}, {1003, 125}, {4096, 7 * 512 + 125}});
  Argument table = view({100});
  table.as_given = true;
  CHECK(smaller_extents({table, view({1000, 7})}) == Map{{7, 6}, {100, 100}, {1000, 997}});
}
