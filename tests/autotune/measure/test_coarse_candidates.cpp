// Tests that the dtypes of the reference, not those of a candidate, decide how large a rounding error is.
#include "checked.h"

using namespace kiln;
using namespace kiln::test;

namespace {

// Row sums that are carried from tile to tile as T.
template <class T> auto sums_in(float factor = 1) {
  return kernel("sums", [=](View<const float, 2> x, View<float, 1> y) {
    auto [m] = program_tile(y, 1_c);
    auto t = for_range(BN, x.cols(), zeros<T>(1_c),
                       [&](auto n, auto t) { return cast<T>(t + cast<T>(sum(x.tile(m, n).load(), BN))); });
    y.tile(m).store(cast<float>(t) * factor);
  });
}

auto squares(bool in_f32) {
  return kernel("squares", [=](View<const double, 1> x, View<double, 1> y) {
    auto [i] = program_tile(y, BN);
    Tile t = x.tile(i).load();
    y.tile(i).store(in_f32 ? Tile(cast<double>(cast<float>(t) * cast<float>(t))) : Tile(t * t));
  });
}

template <class T> auto product_of() {
  return kernel("product", [](View<const float, 2> a, View<const float, 2> b, View<float, 2> c) {
    auto [m, n] = program_tile(c, BM, BN);
    c.tile(m, n).store(for_range(BK, a.cols(), zeros<float>(BM, BN), [&](auto k, auto sum) {
      return sum + dot(cast<T>(a.tile(m, k).load()), cast<T>(b.tile(k, n).load()));
    }));
  });
}

} // namespace

TEST_CASE("sums in a coarser dtype than the reference's are wrong, and those in its own dtype are right") {
  Compared compared(
      {given<float>({100, 4000},
                    [](std::size_t i) { return static_cast<double>(i * 7919 % 100'003) / 50'000; }),
       out<float>({100})},
      bn(64), bn(256));
  CHECK(compared.error(sums_in<float>(), sums_in<float>()) == "");
  CHECK(compared.error(sums_in<float>(), sums_in<bf16>()) != "");
  CHECK(compared.error(sums_in<float>(), sums_in<f16>()) != "");
  CHECK(compared.error(sums_in<double>(), sums_in<float>()) == ""); // the output is f32
  CHECK(compared.error(sums_in<float>(), sums_in<double>()) == "");
}

TEST_CASE("sums in a coarse dtype are right in another order") {
  Compared compared({in<float>({200, 1000}), out<float>({200})}, bn(64), bn(256));
  CHECK(compared.error(sums_in<f16>(), sums_in<f16>()) == "");
  CHECK(compared.error(sums_in<bf16>(), sums_in<bf16>()) == "");
  CHECK(compared.error(sums_in<bf16>(), sums_in<float>()) == "");
  CHECK(compared.error(sums_in<bf16>(), sums_in<bf16>(1.5f)) != "");
}

TEST_CASE("doubles that are computed in f32 are wrong") {
  Compared compared({in<double>({20'000}), out<double>({20'000})}, bn(64), bn(512));
  CHECK(compared.error(squares(false), squares(false)) == "");
  CHECK(compared.error(squares(false), squares(true)) != "");
}

TEST_CASE("a product of f32 with operands in bf16 is wrong, and with smaller tiles right") {
  Compared compared({in<float>({40, 300}), in<float>({300, 40}), out<float>({40, 40})},
                    Config::parse("BM=16,BN=16,BK=16"), Config::parse("BM=8,BN=32,BK=64"));
  CHECK(compared.error(product_of<float>(), product_of<float>()) == "");
  CHECK(compared.error(product_of<float>(), product_of<bf16>()) != "");
}
