// Tests integers that equal one of the patterns with which outputs are filled: 0xA5 (165) and 0x7E (126).
#include "checked.h"

using namespace kiln;
using namespace kiln::test;

namespace {

using std::int16_t, std::int8_t, std::uint8_t;
constexpr std::int64_t n = 20'000;

// Copies bytes; `wrong` replaces `bad` by 0.
auto copied(int bad, bool wrong) {
  return kernel("copied", [=](View<const uint8_t, 1> x, View<uint8_t, 1> y) {
    auto [i] = program_tile(y, BN);
    Tile t = x.tile(i).load();
    y.tile(i).store(wrong ? Tile(where(t == cast<uint8_t>(bad), cast<uint8_t>(0), t)) : t);
  });
}

// 100 x, limited to +-`limit`; `wrong` lets large values become -limit.
template <class T> auto limited(float limit, bool wrong) {
  return kernel("limited", [=](View<const float, 1> x, View<T, 1> y) {
    auto [i] = program_tile(y, BN);
    Tile q = round(x.tile(i).load() * 100.0f), within = clamp(q, -limit, limit);
    y.tile(i).store(cast<T>(wrong ? Tile(where(q > limit, -limit, within)) : within));
  });
}

// Row sums, rounded to bytes.
auto byte_sums(bool wrong) {
  return kernel("byte_sums", [=](View<const float, 2> x, View<uint8_t, 1> y) {
    auto [m] = program_tile(y, 16_c);
    auto t = for_range(BN, x.cols(), zeros<float>(16_c),
                       [&](auto k, auto t) { return t + sum(x.tile(m, k).load(), BN); });
    y.tile(m).store(cast<uint8_t>(clamp(round(t + (wrong ? 1.0f : 0.0f)), 0.0f, 255.0f)));
  });
}

} // namespace

TEST_CASE("a copy of bytes is compared at each value") {
  Compared compared({given<uint8_t>({n}, [](std::size_t i) { return i % 256; }), out<uint8_t>({n})}, bn(64),
                    bn(512));
  CHECK(compared.error(copied(0, false), copied(0, false)) == "");
  for (const int bad : {1, 126, 165})
    CHECK_THAT(compared.error(copied(bad, false), copied(bad, true)),
               Catch::StartsWith("element " + std::to_string(bad) + " is 0, but the reference has "));
}

TEST_CASE("a value that equals a pattern is right if the reference is launched once only") {
  Compared compared({given<uint8_t>({n}, [](std::size_t i) { return i % 256; }), out<uint8_t>({n})}, bn(64),
                    bn(512));
  CHECK(compared.error(copied(0, false), copied(0, false), 0) == "");
  CHECK_THAT(compared.error(copied(165, false), copied(165, true), 0), Catch::StartsWith("element 165 "));
}

TEST_CASE("limits that equal the patterns are compared") {
  Compared bytes({in<float>({n}), out<int8_t>({n})}, bn(64), bn(512)),
      words({in<float>({n}), out<int16_t>({n})}, bn(64), bn(512));
  CHECK(bytes.error(limited<int8_t>(126, false), limited<int8_t>(126, false)) == "");
  CHECK(bytes.error(limited<int8_t>(126, false), limited<int8_t>(126, true)) != "");
  CHECK(bytes.check(limited<int8_t>(126, false), limited<int8_t>(126, false)).outputs.at(0).compared == n);
  CHECK(words.error(limited<int16_t>(0x7E7E, false), limited<int16_t>(0x7E7E, false)) == "");
}

TEST_CASE("an output whose values all equal a pattern can be compared") {
  Compared compared({given<float>({n}, [](std::size_t) { return 5; }), out<int8_t>({n})}, bn(64), bn(512));
  CHECK(compared.error(limited<int8_t>(126, false), limited<int8_t>(126, false)) == "");
  CHECK(compared.error(limited<int8_t>(126, false), limited<int8_t>(126, true)) != "");
}

TEST_CASE("rounded sums next to a pattern may differ by one") {
  for (const double near : {100.5, 125.5, 126.5, 164.5}) {
    INFO(near);
    tune::Random random(fresh_seed());
    constexpr std::int64_t rows = 4000, columns = 64;
    std::vector<float> x(rows * columns);
    for (std::size_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (std::size_t c = 0; c < columns; ++c) {
        float& value = x[r * columns + c];
        value = 2 + static_cast<float>(random.below(1 << 20)) / (1 << 19) - 1;
        if (r % 100 == 0 && c == columns - 1) value = static_cast<float>(near - sum);
        sum += value;
      }
    }
    Compared compared(
        {given<float>({rows, columns}, [&](std::size_t i) { return x[i]; }), out<uint8_t>({rows})}, bn(64),
        bn(4));
    CHECK(compared.error(byte_sums(false), byte_sums(false)) == "");
    CHECK(compared.error(byte_sums(false), byte_sums(true)) != "");
    CHECK(compared.interpreted(byte_sums(false), 0.05) == "");
  }
}

TEST_CASE("an element that keeps both patterns is not written") {
  const auto all_but = [](bool wrong) {
    return kernel("all_but_one", [=](View<const float, 1> x, View<uint8_t, 1> y) {
      auto [i] = program_tile(y, BN);
      Tile at = i + arange(BN);
      y.at(at).store(cast<uint8_t>(x.tile(i).load()),
                     wrong ? Tile((at != 77) & (at < y.size())) : Tile(at < y.size()));
    });
  };
  Compared compared({given<float>({n}, [](std::size_t) { return 165; }), out<uint8_t>({n})}, bn(64), bn(512));
  CHECK(compared.error(all_but(false), all_but(false)) == "");
  CHECK_THAT(compared.error(all_but(false), all_but(true)), Catch::StartsWith("element 77 is not written"));
}
