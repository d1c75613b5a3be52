// Tests outputs that are coarser than what they are computed from: right configs differ in few elements.
#include "checked.h"

#include <cmath>
#include <type_traits>

using namespace kiln;
using namespace kiln::test;

namespace {

using std::uint16_t, std::uint32_t;

enum class Way { rounded, truncated, in_f64, scaled };

auto truncated(auto t) { return bitcast<bf16>(cast<uint16_t>(bitcast<uint32_t>(t) >> 16u)); }

auto sums(Way way) {
  return kernel("sums", [way](View<const float, 2> x, View<bf16, 1> y) {
    auto [m] = program_tile(y, 4_c);
    if (way == Way::in_f64) {
      auto t = for_range(BN, x.cols(), zeros<double>(4_c),
                         [&](auto n, auto t) { return t + sum(cast<double>(x.tile(m, n).load()), BN); });
      y.tile(m).store(cast<bf16>(cast<float>(t)));
      return;
    }
    Tile t = for_range(BN, x.cols(), zeros<float>(4_c),
                       [&](auto n, auto t) { return t + sum(x.tile(m, n).load(), BN); });
    if (way == Way::scaled) t = Tile(t * 1.001f);
    y.tile(m).store(way == Way::truncated ? Tile(truncated(t)) : Tile(cast<bf16>(t)));
  });
}

// exp(x) / sum(exp(x)) in f32.
template <class T> auto softmax(bool by_reciprocal, float factor) {
  return kernel("softmax", [=](View<const T, 2> x, View<T, 2> y) {
    auto [m] = program_tile(x, 2_c);
    auto n = offset(256_c, 0);
    Tile t = cast<float>(x.tile(m, n).load_or(T(-INFINITY)));
    Tile e = exp(t - max(t, 256_c, keep)), total = sum(e, 256_c, keep);
    y.tile(m, n).store(cast<T>(factor * (by_reciprocal ? Tile(e * (1.0f / total)) : Tile(e / total))));
  });
}

template <class T> auto means(bool by_reciprocal) {
  return kernel("means", [=](View<const float, 2> x, View<T, 1> y) {
    auto [m] = program_tile(y, 4_c);
    Tile t = for_range(BN, x.cols(), zeros<float>(4_c),
                       [&](auto n, auto t) { return t + sum(x.tile(m, n).load(), BN); });
    auto columns = cast<float>(x.cols());
    y.tile(m).store(cast<T>(by_reciprocal ? Tile(t * (1.0f / columns)) : Tile(t / columns)));
  });
}

} // namespace

TEST_CASE("sums that are rounded to bf16 are right in another order, and wrong if they are truncated") {
  const auto seed = fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  Compared compared({in<float>({1000, 300}), out<bf16>({1000})}, bn(4), bn(128), seed);
  CHECK(compared.error(sums(Way::rounded), sums(Way::rounded)) == "");
  CHECK(compared.error(sums(Way::rounded), sums(Way::in_f64)) == "");
  CHECK_THAT(compared.error(sums(Way::rounded), sums(Way::truncated)),
             Catch::Contains("are rounded otherwise"));
  CHECK_THAT(compared.error(sums(Way::rounded), sums(Way::scaled)), Catch::Contains("are rounded otherwise"));
}

TEMPLATE_TEST_CASE("factors of less than a rounding error of a coarse output are found", "", bf16, f16) {
  const auto seed = fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  const float slightly_wrong = std::is_same_v<TestType, bf16> ? 1.0005f : 1.0001f;
  Compared compared({in<TestType>({100, 250}), out<TestType>({100, 250})}, bn(4), bn(128), seed);
  CHECK(compared.error(softmax<TestType>(false, 1), softmax<TestType>(true, 1)) == "");
  CHECK_THAT(compared.error(softmax<TestType>(false, 1), softmax<TestType>(false, slightly_wrong)),
             Catch::Contains("are rounded otherwise"));
}

TEMPLATE_TEST_CASE("equal elements may all be rounded otherwise", "", bf16, f16) {
  for (const double value : {0.1, 0.3, 0.7, 1.1, 1.3, 1.7}) {
    INFO(value);
    Compared compared({given<float>({1000, 300}, [=](std::size_t) { return value; }), out<TestType>({1000})},
                      bn(4), bn(128));
    CHECK(compared.error(means<TestType>(false), means<TestType>(true)) == "");
  }
}
